"""What the service says, filled in natively, is what an independent rendering says, byte for byte.

Two engines take the same history. One is spoken to over HTTP: it judges as columns, and answers
with forms. The other judges every submission for itself, in moves, and is asked as a program asks
it; its answers are put in words here, field by field, by Python's own ``json``. Whatever
board, players and scores there are, both must say the same.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.lanes import Served, post, request, served, status
from tests.http.running import run
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, bare_in_moves, engine

from rankd.core.engine import Engine
from rankd.core.writer import WriteResult
from rankd.errors import RankdError
from rankd.model.receipt import InWindow, Receipt
from rankd.model.standing import Absent, Standing

EACH_TIME_ALIKE = settings(derandomize=True, max_examples=40, deadline=None)

PLAYERS = ["p", "q-1", 'quo"te', "back\\slash", "Ä", "日本", "\U0001f600", "a/b", "x" * 256, "~"]
PLAIN_PLAYERS = ["p", "Ä", "\U0001f600"]
NAMES = [None, "Ann", 'A "B" \\ C', "Ümläut", "\U0001d11e", "é" * 20]
METADATA: list[Any] = [
    None,
    {},
    [],
    0,
    -1.5,
    'te"xt\\ \u2028 \U0001f600',
    {"a": {"b": [None, True]}},
]
EXTREMES = [0, 1, -1, 9, 10, 99, 100, -(2**63), 2**63 - 1, 1 - 2**63, 10**18]


class Story(NamedTuple):
    """What two boards are like, and what happens on them."""

    definition: Mapping[str, Any]
    batches: Sequence[Sequence[Mapping[str, Any]]]
    names: Mapping[str, str]
    """What some players are called."""


@st.composite
def stories(draw: st.DrawFn) -> Story:
    plain = draw(st.booleans())
    """Whether scores are such as a batch takes in the quickest way."""
    width = 1 if plain else draw(st.integers(1, 4))
    decimals = 0 if plain else draw(st.sampled_from([0, 0, 2]))
    players = PLAIN_PLAYERS if plain else PLAYERS
    direction = st.sampled_from(["higher", "lower"])
    definition: dict[str, Any] = {
        "ties": draw(st.sampled_from(["ordinal", "ordinal", "standard", "dense"])),
        "tie_break": draw(st.sampled_from(["first", "latest", "player"])),
        "rule": draw(st.sampled_from(["best", "latest", "sum", "first"])),
        "windows": draw(st.sampled_from([["all"], ["daily", "all"], ["weekly", "daily"]])),
        "decimals": decimals,
        "limits": draw(st.sampled_from([{}, {}, {"score_min": -100, "score_max": 100}])),
    }
    if width == 1:
        definition["direction"] = draw(direction)
    else:
        definition["columns"] = [
            {"name": f"c{place}", "direction": draw(direction)} for place in range(width)
        ]
    score = st.integers(-3, 3) if decimals else st.sampled_from(EXTREMES) | st.integers(-3, 3)

    def item() -> dict[str, Any]:
        board = draw(st.sampled_from(["b", "b", "b", "c"]))
        made: dict[str, Any] = {"board": board, "player": draw(st.sampled_from(players))}
        made["score"] = draw(score)
        if width > 1:
            made["columns"] = {f"c{place}": draw(score) for place in range(1, width)}
        if not plain and draw(st.booleans()):
            made["metadata"] = draw(st.sampled_from(METADATA))
        if draw(st.integers(0, 3)) == 0:
            made["key"] = draw(st.sampled_from(["k1", "k2", "k3"]))
        return made

    batches = [
        [item() for _ in range(draw(st.integers(1, 6)))] for _ in range(draw(st.integers(1, 4)))
    ]
    called = draw(st.lists(st.sampled_from(NAMES), max_size=len(PLAYERS)))
    names = {player: name for player, name in zip(PLAYERS, called, strict=False) if name}
    return Story(definition, batches, names)


# ------------------------------------------------------------------------------- in words


def said(what: object) -> bytes:
    """Return JSON as Python writes it, but for decimals, which keep their zeros."""
    decimals: list[Decimal] = []

    def mark(value: object) -> str:
        assert isinstance(value, Decimal)
        decimals.append(value)
        return "<decimal>"

    text = json.dumps(what, ensure_ascii=False, separators=(",", ":"), default=mark)
    first, *others = text.split('"<decimal>"')
    return "".join(
        [first, *(f"{d}{rest}" for d, rest in zip(decimals, others, strict=True))]
    ).encode()


def number(score: int, decimals: int) -> int | Decimal:
    return score if decimals == 0 else Decimal(score).scaleb(-decimals)


def share(rank: int, total: int) -> float:
    return round(100 * ((total - rank + 1) / total), 2)


def columns(scores: Sequence[int], decimals: int) -> dict[str, Any]:
    if len(scores) == 1:
        return {}
    return {"columns": {f"c{place}": number(one, decimals) for place, one in enumerate(scores)}}


def beside(standing: Standing) -> Any:
    return None if standing.metadata_json is None else json.loads(standing.metadata_json)


Places = Mapping[str, int]
"""Each player's place in a ranking; none where ranks are not shared."""


def places_in(definition: Mapping[str, Any], ranked: Sequence[Standing]) -> Places:
    """Return the places that ``ordinal`` is to tell, counted in the whole ranking."""
    if definition["ties"] == "ordinal":
        return {}
    return {one.player: place for place, one in enumerate(ranked, start=1)}


def ordinal(places: Places, player: str) -> dict[str, Any]:
    return {"ordinal": places[player]} if places else {}


def standing_in_words(standing: Standing, window: str, places: Places) -> bytes:
    decimals = standing.decimals
    return said(
        {
            "board": "b",
            "window": window,
            "segment": None,
            "player": standing.player,
            "name": standing.name,
            "rank": standing.rank,
            "score": number(standing.scores[0], decimals),
            "rank_change": None,
            "percentile": share(standing.rank, standing.total),
            "total": standing.total,
            "metadata": beside(standing),
            "as_of": standing.as_of,
            "exactness": "exact",
            "stale": False,
            **columns(standing.scores, decimals),
            "state": "open",
            **ordinal(places, standing.player),
        }
    )


def page_in_words(page: Any, places: Places, count: int | None = None) -> bytes:
    rows = [
        {
            "rank": one.rank,
            "player": one.player,
            "name": one.name,
            "score": number(one.scores[0], one.decimals),
            "rank_change": None,
            "metadata": beside(one),
            **columns(one.scores, one.decimals),
            **ordinal(places, one.player),
        }
        for one in page.standings
    ]
    return said(
        {
            "board": "b",
            "window": page.ranking.window,
            "segment": None,
            "total": page.total,
            "as_of": page.as_of,
            "exactness": "exact",
            "stale": False,
            "standings": rows,
            "next_cursor": page.next_cursor,
            "prev_cursor": page.prev_cursor,
            "state": page.state,
            **({} if count is None else {"count": count}),
        }
    )


def receipt_in_words(receipt: Receipt, width: int) -> dict[str, Any]:
    decimals = receipt.decimals

    def columns_in_words(one: InWindow) -> dict[str, Any]:
        if one.scores is not None:
            return columns(one.scores, decimals)
        return {"columns": {f"c{place}": None for place in range(width)}} if width > 1 else {}

    def window_in_words(one: InWindow) -> dict[str, Any]:
        return {
            "window": one.window,
            "score": None if one.scores is None else number(one.scores[0], decimals),
            "rank": one.rank,
            "previous_rank": one.previous_rank,
            "rank_change": one.previous_rank - one.rank if one.rank and one.previous_rank else None,
            "total": one.total,
            "verdict": one.verdict,
            **columns_in_words(one),
        }

    windows = {name: window_in_words(one) for name, one in receipt.windows.items()}
    speaks = receipt.windows["all" if "all" in receipt.windows else next(iter(receipt.windows))]
    first = window_in_words(speaks)
    before = speaks.previous_scores
    return {
        "board": receipt.board,
        "player": receipt.player,
        "verdict": first["verdict"],
        "score": first["score"],
        "previous_score": None if before is None else number(before[0], decimals),
        "rank": first["rank"],
        "previous_rank": first["previous_rank"],
        "rank_change": first["rank_change"],
        "total": first["total"],
        "percentile": share(speaks.rank, speaks.total) if speaks.rank else None,
        "position": receipt.position,
        "windows": windows,
        **({"duplicate": True} if receipt.duplicate else {}),
        **columns_in_words(speaks),
    }


def answer_in_words(answer: WriteResult | RankdError, width: int) -> Any:
    """None where it was refused: why is not what forms tell."""
    if isinstance(answer, RankdError) or answer.error is not None:
        return None
    assert answer.receipt is not None
    return None if answer.receipt.rejected else receipt_in_words(answer.receipt, width)


# ------------------------------------------------------------------------------ comparing


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def alike(clock: SetClock) -> AbstractAsyncContextManager[Engine]:
    """Return the engine that judges in moves."""
    return engine(FaultyLedger(), clock, bare_in_moves)


@asynccontextmanager
async def both(definition: Mapping[str, Any]) -> AsyncIterator[tuple[Served, Engine]]:
    async with served(definition) as service, alike(service.clock) as judge:
        await judge.define("b", definition)
        for rankd in (service.rankd, judge):
            await rankd.define("c", definition)
        yield service, judge


async def compare_one_by_one(
    service: Served, judge: Engine, batch: Sequence[Mapping[str, Any]]
) -> None:
    for item in batch:
        sent = {name: item[name] for name in item if name != "board"}
        board = item["board"]
        answer = await service.fast.ask(post(sent, f"/v1/boards/{board}/scores"))
        (judged,) = await judge.submit_each([(board, sent)])
        words = answer_in_words(judged, judge.state.page(board).board.width)
        if words is None:
            assert status(answer) >= 400
        else:
            assert body_of(answer) == said(words)


async def compare_together(
    service: Served, judge: Engine, batch: Sequence[Mapping[str, Any]]
) -> None:
    text = json.dumps({"scores": batch}, ensure_ascii=False).encode()
    answer = body_of(await service.fast.ask(post(text, "/v1/scores:batch")))
    judged = await judge.submit_each([(item["board"], item) for item in batch])
    width = judge.state.page("b").board.width
    expected = [answer_in_words(one, width) for one in judged]
    if None not in expected:
        assert answer == said({"results": expected, "position": judge.position})
        return
    results = json.loads(answer, parse_float=Decimal)["results"]
    assert ["code" in result for result in results] == [words is None for words in expected]
    kept = [json.loads(said(words), parse_float=Decimal) for words in expected if words]
    assert [result for result in results if "code" not in result] == kept


async def compare_reads(service: Served, judge: Engine, story: Story, window: str) -> None:
    line = service.fast.connect()
    whole = (await judge.reader.page("b", window=window, limit=1000)).standings
    places = places_in(story.definition, whole)
    for player in PLAYERS:
        path = f"/v1/boards/b/standings/{quote(player, safe='')}"
        standing = await judge.reader.standing("b", player, window=window)
        asked = request("GET", f"{path}?window={window}")
        near = request("GET", f"{path}/around?window={window}&above=1&below=2")
        if standing is None:
            assert status(await line.ask(asked)) == 404
            await compare_absent(line, judge, window, player, places)
            continue
        ranking = judge.reader.where("b", window).ranking
        for _ in range(2):  # The second time it may be known.
            assert body_of(await line.ask(asked)) == standing_in_words(
                standing, ranking.window, places
            )
        page = await judge.reader.around("b", player, above=1, below=2, window=window)
        assert body_of(await line.ask(near)) == page_in_words(page, places)
    for query, how in (("limit=3", {"limit": 3}), ("limit=2&offset=1", {"limit": 2, "offset": 1})):
        page = await judge.reader.page("b", window=window, **how)  # type: ignore[arg-type]
        asked = request("GET", f"/v1/boards/b/standings?window={window}&{query}")
        assert body_of(await line.ask(asked)) == page_in_words(page, places)
    for low, high in ((-1, 9), (0, None), (None, 1)):
        page = await judge.reader.page("b", window=window, limit=2, score_min=low, score_max=high)
        bounds = {"score_min": low, "score_max": high}
        query = urlencode({name: bound for name, bound in bounds.items() if bound is not None})
        asked = request("GET", f"/v1/boards/b/standings?window={window}&limit=2&{query}")
        some = [one for one in whole if is_within(one, low, high)]
        assert page.standings == some[:2]
        for _ in range(2):
            assert body_of(await line.ask(asked)) == page_in_words(page, places, len(some))


def is_within(standing: Standing, low: int | None, high: int | None) -> bool:
    score = standing.scores[0] / 10**standing.decimals
    return (low is None or low <= score) and (high is None or score <= high)


async def compare_absent(
    line: Any, judge: Engine, window: str, player: str, places: Places
) -> None:
    path = f"/v1/boards/b/standings/{quote(player, safe='')}/around"
    for end in Absent:
        page = await judge.reader.around("b", player, above=0, below=1, window=window, absent=end)
        asked = request("GET", f"{path}?window={window}&above=0&below=1&absent={end}")
        assert body_of(await line.ask(asked)) == page_in_words(page, places)


@EACH_TIME_ALIKE
@given(stories(), st.booleans())
def test_whatever_there_is_is_shown_as_an_independent_rendering_shows_it(
    story: Story, one_by_one: bool
) -> None:
    compare = compare_one_by_one if one_by_one else compare_together

    async def tell() -> None:
        async with both(story.definition) as (service, judge):
            windows = story.definition["windows"]
            await compare_reads(service, judge, story, windows[0])  # Nobody is there yet.
            for number, batch in enumerate(story.batches):
                service.clock.time += DAY * (number % 2)
                await compare(service, judge, batch)
            for player, name in story.names.items():
                for rankd in (service.rankd, judge):
                    await rankd.profile(player, {"name": name})
            for window in windows:
                await compare_reads(service, judge, story, window)

    run(tell())


@st.composite
def plain_batches(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """Batches of which some rows come twice, and some are for another board."""
    score = st.sampled_from([0, 5, 2**63 - 1])
    items = [
        {"board": draw(st.sampled_from("bbbc")), "player": player, "score": draw(score), "key": key}
        for key, player in zip("0123456", PLAIN_PLAYERS * 2, strict=False)
    ]
    rows = st.lists(st.sampled_from(items), min_size=1, max_size=5)
    return draw(st.lists(rows, min_size=1, max_size=3))


@EACH_TIME_ALIKE
@given(plain_batches())
def test_batches_that_are_shown_as_columns_are_shown_row_for_row(
    batches: list[list[dict[str, Any]]],
) -> None:
    async def tell() -> None:
        async with both({"windows": ["daily", "all"]}) as (service, judge):
            for batch in batches:
                await compare_together(service, judge, batch)

    run(tell())
