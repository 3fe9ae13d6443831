"""Players that are anonymous, or shown to their friends alone: what others are told of them.

Method: a game in which two players are hidden, one from all others and one from all but its friend.
Every read of the route table is asked by each kind of reader, in both lanes and again from what was
prepared for it. No answer to others may have a string that belongs to a hidden player, unless the
request itself has it; and ranks, scores and totals are those of a game in which all are public.
"""

import itertools
import json
import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.http.lanes import Served, get, new_key, post, request, served, status, told
from tests.http.running import run
from tests.http.test_player_states import QUERIES, READS
from tests.unit.core.doubles import DAY, engine

from rankd.api.auth import Actor
from rankd.errors import Unauthenticated
from rankd.model.facts import Position, VisibilitySet
from rankd.model.standing import CURSOR_LENGTH_MAX

HIDDEN = ("e-v-e", "f-a-y")
"""Anonymous, and shown to its friend."""
PUBLIC = ("ann", "bob", "cyd", "dee")
PLAYERS = (*PUBLIC, *HIDDEN)
SCORES = dict(zip(PLAYERS, (20, 30, 10, 30, 25, 30), strict=True))
FRIENDS = {"f-a-y": ["ann"], "ann": [*HIDDEN, "bob"], "bob": [*HIDDEN]}

BOARD: dict[str, Any] = {
    "windows": ["all", "daily"],
    "segments": ["region"],
    "writes": "client",
    "rewards": [{"top_percent": 100, "give": 1}],
}
BOARDS = ("b", "global")
PAGE = "/v1/boards/b/standings"


def secrets(player: str) -> list[str]:
    """Return the strings that tell of a player."""
    return [player, f"Name of {player}", f"guild of {player}", f"note of {player}"]


def tokens(shown: bytes) -> Actor:
    player = shown.decode().partition(".of.")[2]
    if player not in PLAYERS:
        raise Unauthenticated
    return Actor(f"player:{player}", player)


def token(player: str) -> str:
    return f"Bearer one.of.{player}"


@asynccontextmanager
async def playing(*, hidden: bool = True, **definition: Any) -> AsyncIterator[Served]:
    async with served({**BOARD, **definition}, tokens) as service:
        rankd, clock = service.rankd, service.clock
        await rankd.define("global", {**BOARD, **definition})
        for player in PLAYERS:
            attributes = {"region": "eu", "guild": f"guild of {player}", "country": "fr"}
            body = {"name": f"Name of {player}", "attributes": attributes}
            await rankd.profile(player, {**body, "friends": FRIENDS.get(player, [])})
        for _ in range(2):
            for (player, score), board in itertools.product(SCORES.items(), BOARDS):
                metadata = {"note": f"note of {player}"}
                await rankd.submit(
                    board, [{"player": player, "score": score, "metadata": metadata}]
                )
            clock.time += DAY
        for board in BOARDS:
            await rankd.settle_window(board, {"window": "daily:-1", "reason": "a prize"})
        await rankd.profile("e-v-e", {"visibility": "anonymous" if hidden else "public"})
        await rankd.profile("f-a-y", {"visibility": "friends" if hidden else "public"})
        yield service


def asked_by(reads: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the reads of the route table, about players of this game."""
    names = {"eve": "e-v-e", "nobody": "f-a-y"}
    for _, method, target, body in reads:
        for old, new in names.items():
            target = re.sub(rf"(?<=/){old}\b", new, target)
        if body is not None:
            body = {"players": [names.get(one, one) for one in body["players"]]}
        yield method, target, body


PAST = [
    *("as_of=26", "as_of=46", "at=2026-11-16T06:00:00Z", "as_of=46&limit=2", "as_of=46&score=25"),
    *("as_of=46&window=daily:-1", "as_of=46&segment=region:eu", "as_of=46&baseline=26"),
    *("baseline=26", "baseline=1d", "baseline=daily:-1"),
]
"""Queries of past moments, and of movement since a baseline that is named."""


def of_the_past(reads: Any) -> Iterator[tuple[Any, str, str, Any]]:
    """Yield reads of one board's past, each path once with each query that its route takes."""
    paths = {
        (method, target.partition("?")[0]): (route, body)
        for route, method, target, body in reads
        if target.startswith("/v1/boards/b/")
    }
    for (method, path), (route, body) in paths.items():
        names = {param.name for param in route.params}
        for query in PAST:
            if names.issuperset(re.findall(r"(\w+)=", query)):
                yield route, method, f"{path}?{query}", body


REWARDS = "/v1/boards/global/windows/daily:-1/rewards"
ASKED = [
    *asked_by([*READS, *of_the_past(READS)]),
    *(
        ("GET", f"/v1/players?query={name}&limit=1000", None)
        for name in (*QUERIES["query"], "e-v", "f-a", "Name")
    ),
    *(("GET", f"{REWARDS}{query}", None) for query in ("", "?player=e-v-e", "?player=f-a-y")),
]


def sent(method: str, target: str, body: Any, authorization: str | None) -> bytes:
    headers = {} if authorization is None else {"authorization": authorization}
    if body is None:
        return request(method, target, None, **headers)
    return post(body, target, **headers)


async def answered(service: Served, one: bytes) -> bytes:
    """Return what both lanes answer, and again once they know the request."""
    answer = await service.same(one)
    assert await service.same(one) == answer, one
    return answer


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def leaks(answer: bytes, request: bytes, players: tuple[str, ...]) -> list[str]:
    """Return the strings of players in an answer that are not in the request.

    An id that the request has may be repeated, but not with a rank.
    """
    text = body_of(answer).decode()
    all_text = text + "".join(map(_plain, re.findall(r'_cursor":"([^"]+)"', text)))
    found = [one for player in players for one in secrets(player) if one in all_text]
    found = [one for one in found if one.encode() not in request]
    ranked = ranked_in(told(answer)) if text else ()
    return found + [player for player in players if player in ranked]


def ranked_in(body: Any) -> set[str]:
    """Return the ids that a body has beside a rank."""
    if isinstance(body, list):
        return set().union(*map(ranked_in, body))
    if not isinstance(body, dict):
        return set()
    own = {str(body.get(name)) for name in ("player", "player_id", "user_id") if "rank" in body}
    return own.union(*map(ranked_in, body.values()))


def _plain(cursor: str) -> str:
    return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("latin-1")


READERS: dict[str, tuple[str, ...]] = {
    "a read key": HIDDEN,
    "a friend": ("e-v-e",),
    "a player that names it": HIDDEN,
    "the anonymous player": ("f-a-y",),
    "the player shown to friends": ("e-v-e",),
}
"""Readers, and the players that are hidden to each."""

TOKENS = dict(zip(list(READERS)[1:], map(token, ("ann", "bob", "e-v-e", "f-a-y")), strict=True))


@pytest.mark.parametrize(
    ("ties", "tie_break"), [("ordinal", "first"), ("standard", "player"), ("dense", "latest")]
)
def test_no_answer_tells_others_of_a_hidden_player(ties: str, tie_break: str) -> None:
    async def ask() -> None:
        async with playing(ties=ties, tie_break=tie_break) as service:
            _, read_key = await new_key(service.rankd, "read")
            found = []
            for method, target, body in ASKED:
                for reader, hidden in READERS.items():
                    one = sent(method, target, body, TOKENS.get(reader, read_key))
                    answer = await answered(service, one)
                    found += [(reader, target, leak) for leak in leaks(answer, one, hidden)]
            assert found == []

    run(ask())


def test_earlier_editions_tell_others_no_more_of_a_hidden_player() -> None:
    async def ask() -> None:
        async with playing() as service:
            await new_key(service.rankd, "submit")
            await service.rankd.corrections.retract("b", {"player": "bob"})
            for edition, total in ((1, len(PLAYERS)), (2, len(PLAYERS) - 1)):
                which = f"?window=daily:-1&edition={edition}"
                one = sent("GET", f"{PAGE}{which}", None, token("cyd"))
                page = await answered(service, one)
                assert told(page)["total"] == total and leaks(page, one, HIDDEN) == []
                for player in HIDDEN:
                    one = sent("GET", f"{PAGE}/{player}{which}", None, token("cyd"))
                    assert status(await answered(service, one)) == 404
                    one = sent("GET", f"{PAGE}/{player}{which}", None, token(player))
                    assert told(await answered(service, one))["total"] == total

    run(ask())


def test_a_shadowed_player_sees_itself_and_no_hidden_one() -> None:
    async def ask() -> None:
        async with playing() as service:
            await new_key(service.rankd, "submit")
            await service.rankd.corrections.set_player_state("cyd", "shadowed", {})
            for target in (PAGE, f"{PAGE}?limit=3", f"{PAGE}/cyd/around"):
                one = sent("GET", target, None, token("cyd"))
                answer = await answered(service, one)
                assert leaks(answer, one, HIDDEN) == []
                assert told(answer)["total"] == len(PLAYERS)
            await service.rankd.corrections.set_player_state("e-v-e", "shadowed", {})
            one = sent("GET", PAGE, None, token("e-v-e"))
            page = told(await answered(service, one))
            assert "e-v-e" in [row["player"] for row in page["standings"]]

    run(ask())


def test_open_mode_is_answered_as_the_public() -> None:
    async def ask() -> None:
        async with playing() as service:
            for one in (sent(*each, None) for each in ASKED):
                assert leaks(await answered(service, one), one, HIDDEN) == []

    run(ask())


@pytest.mark.parametrize("scope", ["submit", "moderate", "admin"])
def test_the_game_sees_what_it_sees_where_all_are_public(scope: str) -> None:
    async def ask() -> None:
        async with playing() as service, playing(hidden=False) as public:
            keys = [(await new_key(one.rankd, "read", scope))[1] for one in (service, public)]
            for method, target, body in ASKED:
                pair = [
                    told_plainly(await answered(one, sent(method, target, body, key)))
                    for one, key in zip((service, public), keys, strict=True)
                ]
                assert pair[0] == pair[1], target

    run(ask())


def told_plainly(answer: bytes) -> Any:
    """Return an answer without the keys' ids, request ids and the visibility itself."""
    body = told(answer)
    if isinstance(body, dict):
        return {name: one for name, one in body.items() if name not in ("request_id", "visibility")}
    return body


@pytest.mark.parametrize("tie_break", ["first", "latest", "player"])
def test_ranks_scores_and_totals_are_those_of_all(tie_break: str) -> None:
    async def ask() -> None:
        async with playing(tie_break=tie_break) as service:
            _, game = await new_key(service.rankd, "read", "submit")
            for window, segment in itertools.product(
                ("all", "daily:-1"), ("", "&segment=region:eu")
            ):
                target = f"{PAGE}?window={window}{segment}"
                full = told(await service.same(sent("GET", target, None, game)))
                part = told(await service.same(sent("GET", target, None, token("cyd"))))
                assert part["total"] == full["total"] == len(PLAYERS)
                for mine, theirs in zip(full["standings"], part["standings"], strict=True):
                    if mine["player"] in HIDDEN:
                        assert theirs["player"] is theirs["name"] is theirs["metadata"] is None
                        assert theirs["anonymous"] is True
                        same = ("rank", "score")
                        assert [theirs[one] for one in same] == [mine[one] for one in same]
                    else:
                        assert theirs == mine

    run(ask())


@pytest.mark.parametrize("tie_break", ["first", "latest", "player"])
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_cursors_walk_past_hidden_players_both_ways(tie_break: str, limit: int) -> None:
    async def ask() -> None:
        async with playing(tie_break=tie_break) as service:
            await new_key(service.rankd, "submit")

            async def page(query: str) -> Any:
                target = f"{PAGE}?limit={limit}{query}"
                return told(await service.same(sent("GET", target, None, token("cyd"))))

            whole = told(await service.same(sent("GET", PAGE, None, token("cyd"))))["standings"]
            walked, one = [], await page("")
            while True:
                walked += one["standings"]
                if one["next_cursor"] is None:
                    break
                one = await page(f"&cursor={one['next_cursor']}")
            assert walked == whole
            back = one["standings"]
            while one["prev_cursor"] is not None:
                one = await page(f"&cursor={one['prev_cursor']}")
                back = one["standings"] + back
            assert back == whole

    run(ask())


@pytest.mark.parametrize("tie_break", ["first", "player"])
def test_forged_cursors_do_not_find_out_an_id(tie_break: str) -> None:
    """A cursor beside a hidden entry leads to the same page, whatever id is put into it."""

    async def ask() -> None:
        from rankd.core.reader import _cursor_name
        from rankd.model.standing import Cursor, Way

        async with playing(tie_break=tie_break) as service:
            await new_key(service.rankd, "submit")
            where = service.rankd.reader.where("b")
            place = await service.rankd.projector.index.rank(where.ranking, "f-a-y")
            assert place is not None
            for way in Way:
                pages = []
                for guess in ("a", "f", "f-a-y", "g", "z"):
                    cursor = Cursor(place.order_key, guess, way).encode(_cursor_name(where))
                    target = f"{PAGE}?limit=2&cursor={cursor}"
                    answer = told(await service.same(sent("GET", target, None, token("cyd"))))
                    pages.append([one["rank"] for one in answer["standings"]])
                assert all(one == pages[0] for one in pages), (way, pages)

    run(ask())


def test_a_cursor_to_no_place_is_refused() -> None:
    async def ask() -> None:
        from rankd.core.reader import _cursor_name
        from rankd.model.standing import Cursor

        async with playing(tie_break="player") as service:
            where = service.rankd.reader.where("b")
            for number in ("x", "0", "²", "9" * 19, "-1"):
                key = bytes(where.terms.order.key_bytes)
                cursor = Cursor(key, f"\U0010ffff{number}").encode(_cursor_name(where))
                assert len(cursor) <= CURSOR_LENGTH_MAX
                answer = await service.same(sent("GET", f"{PAGE}?cursor={cursor}", None, None))
                assert (status(answer), told(answer)["code"]) == (422, "invalid_cursor")

    run(ask())


def test_a_hidden_player_is_as_one_without_an_entry() -> None:
    async def ask() -> None:
        async with playing() as service:
            _, read_key = await new_key(service.rankd, "read")
            for player, reader in (
                *(("e-v-e", one) for one in (read_key, token("ann"), token("f-a-y"))),
                *(("f-a-y", one) for one in (read_key, token("bob"), token("e-v-e"))),
            ):

                async def ask_for(target: str, reader: str = reader) -> Any:
                    return await service.same(sent("GET", target, None, reader))

                for target in (f"{PAGE}/{player}", f"{PAGE}/{player}/around"):
                    answer = await ask_for(target)
                    assert (status(answer), told(answer)["code"]) == (404, "not_ranked")
                answer = await ask_for(f"/v1/players/{player}")
                assert (status(answer), told(answer)["code"]) == (404, "unknown_player")
                assert told(await ask_for(f"/v1/boards/b/history/{player}"))["facts"] == []
                ranks, unknown = [
                    told(await ask_for(f"/v1/boards/b/history/{one}/ranks"))["points"]
                    for one in (player, "x-y-z")
                ]
                assert ranks == unknown and len(ranks) == 3
                everywhere = told(await ask_for(f"/v1/players/{player}/standings"))
                assert everywhere["standings"] == [] and everywhere["name"] is None
                friends = told(await ask_for(f"/v1/boards/b/friends/{player}"))
                assert (friends["standings"], friends["not_found"]) == ([], [player])
            for player, reader in (("e-v-e", "e-v-e"), ("f-a-y", "f-a-y"), ("f-a-y", "ann")):
                for target in (f"{PAGE}/{player}", f"/v1/players/{player}"):
                    assert (
                        status(await service.same(sent("GET", target, None, token(reader)))) == 200
                    )

    run(ask())


def test_plans_and_cached_pages_end_when_a_player_hides() -> None:
    async def ask() -> None:
        async with playing(hidden=False) as service:
            rankd = service.rankd
            _, game = await new_key(rankd, "read", "submit")
            standing, page = (get("e-v-e", authorization=token("ann")),) * 2
            page = request("GET", PAGE, None, authorization=token("ann"))
            for visibility in ("public", "anonymous", "friends", "public"):
                await rankd.profile("e-v-e", {"visibility": visibility})
                seen = visibility == "public"
                assert status(await answered(service, standing)) == (200 if seen else 404)
                assert (b'"e-v-e"' in await answered(service, page)) == seen
                own = get("e-v-e", authorization=game)
                assert status(await answered(service, own)) == 200
                assert await service.at_once(own), "keys of the game keep their plans"
                assert await service.at_once(standing) == seen

    run(ask())


def test_shared_caches_store_what_the_public_sees_alone() -> None:
    async def ask() -> None:
        async with playing() as service:
            _, game = await new_key(service.rankd, "read", "submit")
            _, read_key = await new_key(service.rankd, "read")
            service.service.public_pages = ("b",)
            for reader, shared in ((game, False), (read_key, True), (token("f-a-y"), False)):
                for target in (PAGE, f"{PAGE}?offset=1"):
                    answer = await answered(service, sent("GET", target, None, reader))
                    head = answer.partition(b"\r\n\r\n")[0]
                    assert (b"cache-control: public" in head) == shared, (reader, target)
                    assert (b"surrogate-control" in head) == shared
            await service.rankd.profile("e-v-e", {"visibility": None})
            await service.rankd.profile("f-a-y", {"visibility": None})
            answer = await answered(service, sent("GET", PAGE, None, game))
            assert b"cache-control: public" in answer

    run(ask())


def test_etags_differ_between_readers() -> None:
    async def ask() -> None:
        async with playing() as service:
            _, game = await new_key(service.rankd, "read", "submit")
            tags = {
                reader: re.search(
                    rb"etag: (\S+)", await answered(service, sent("GET", PAGE, None, reader))
                )
                for reader in (game, token("ann"), token("bob"), token("f-a-y"))
            }
            found = {reader: tag[1] for reader, tag in tags.items() if tag is not None}
            assert found[token("ann")] == found[token("f-a-y")]
            assert len(set(found.values())) == 3
            known = request(
                "GET", PAGE, None, authorization=token("bob"), if_none_match=found[game].decode()
            )
            assert status(await answered(service, known)) == 200

    run(ask())


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_profile_sets_and_tells_the_visibility(method: str) -> None:
    async def ask() -> None:
        async with served(BOARD, tokens) as service:
            _, game = await new_key(service.rankd, "read", "submit")

            async def put(body: Any) -> Any:
                text = json.dumps(body).encode()
                headers = {"authorization": game, "content_type": "application/json"}
                return await service.fast.ask(request(method, "/v1/players/ann", text, **headers))

            assert told(await put({"name": "Ann"}))["visibility"] == "public"
            assert told(await put({"visibility": "anonymous"}))["visibility"] == "anonymous"
            assert told(await put({"name": "Anna"}))["visibility"] == "anonymous"
            shown = told(await put({"attributes": {"a": 1}, "visibility": "friends"}))
            assert (shown["visibility"], shown["name"]) == ("friends", "Anna")
            wrongs: list[Any] = ["hidden", 1, ["friends"], {}, ""]
            for wrong in wrongs:
                answer = await put({"visibility": wrong})
                assert status(answer) == 422 and told(answer)["applied"] == "no"
                assert told(answer)["errors"][0]["field"] == "visibility"
            assert told(await put({"visibility": None}))["visibility"] == "public"

    run(ask())


def test_an_erasure_makes_a_player_public_and_redacts_the_fact() -> None:
    async def ask() -> None:
        async with playing() as service:
            await service.rankd.erase("e-v-e")
            assert "e-v-e" not in service.rankd.state.visibility
            facts = await service.ledger.facts_of(
                board=None, player="e-v-e", after=Position(0), before=None, limit=1000
            )
            told = [one.fact for one in facts if isinstance(one.fact, VisibilitySet)]
            assert [one.visibility for one in told] == ["public"]

    run(ask())


def test_a_new_state_of_the_same_facts_hides_the_same_players() -> None:
    async def ask() -> None:
        async with playing() as service:
            before = service.rankd.state.visibility
            assert before == {"e-v-e": "anonymous", "f-a-y": "friends"}
            async with engine(service.ledger, service.clock) as again:
                assert again.state.visibility == before

    run(ask())
