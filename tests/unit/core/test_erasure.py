"""No byte of an erased person is left in the folder, nor in what is made of it later."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner
from tests.unit.core.doubles import DAY, FaultyLedger, SetClock, engine, state_of, verified

import rankd
from rankd.cli import main
from rankd.core.engine import Engine
from rankd.core.erasure import Eraser
from rankd.core.state_codec import VERSION, Heading, read_notes, take_notes
from rankd.embedded import Ranks
from rankd.errors import LedgerUnavailable
from rankd.model.facts import Position

SECRETS = [
    b"Ada Secret",
    b"Ada Private",
    b"Geheimstadt",
    b"Elsewhere",
    b"hidden-note",
    b"late-note",
    b"secret-friend",
]
BOARD: dict[str, Any] = {"rule": "best", "windows": ["all", "daily"], "segments": ["town"]}


def leaked(folder: Path) -> list[tuple[str, bytes]]:
    """Return the files of a folder with any of the secrets."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [
        (path.name, secret) for path in files for secret in SECRETS if secret in path.read_bytes()
    ]


def play(ranks: Ranks) -> None:
    """Have many players, and one with data everywhere, that moved between pages of the file."""
    board = ranks.board("arena", **BOARD)
    board.submit("ada", 50, key="k1", metadata={"note": "hidden-note" * 40})
    for n in range(160):
        ranks.profile(f"p{n:03}", name=f"Player {n}", attributes={"town": f"t{n % 7}"})
        board.submit(f"p{n:03}", n, metadata={"n": n}, attributes={"town": f"t{n % 5}"})
        if n % 20 == 0:
            town = "Geheimstadt" if n % 40 else "Elsewhere"
            name = "Ada Secret" if n % 40 else "Ada Private"
            ranks.profile("ada", name=name + "!" * (n // 20))
            ranks.profile("ada", attributes={"town": town, "note": "hidden-note"})
            board.submit("ada", 1000 + n, key=f"k{n}x", attributes={"town": town})
    ranks.set_friends("ada", ["p001", "secret-friend"])
    ranks.set_friends("p001", ["ada", "p002"])
    board.submit(
        "ada",
        9_000,
        key="late",
        metadata={"note": "late-note"},
        at="2026-01-02T03:04:05Z",
        build="1.2",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "game"


def standings(ranks: Ranks) -> list[tuple[str, int, int]]:
    """Return all players with their ranks and scores."""
    found = ranks.board("arena", **BOARD).page(from_rank=1, limit=1000).standings
    return [(one.player, one.rank, int(one.score)) for one in found]


def test_no_byte_of_an_erased_player_is_left(folder: Path, tmp_path: Path) -> None:
    with rankd.open(folder) as ranks:
        play(ranks)
        ranks.save()
        before = standings(ranks)
        assert leaked(folder), "it was there"
        ranks.erase("ada", reason="asked to be forgotten")
        ranks.save()
        assert leaked(folder) == []
        assert standings(ranks) == before
        ranks.backup(tmp_path / "backup")
        ranks.verify()
    assert leaked(folder) == []
    assert leaked(tmp_path / "backup") == []
    with rankd.open(folder) as ranks:
        ranks.verify()
        assert standings(ranks) == before


def test_a_snapshot_from_before_an_erasure_is_replaced(folder: Path) -> None:
    with rankd.open(folder) as ranks:
        play(ranks)
        ranks.save()
    with rankd.open(folder) as ranks:
        ranks.erase("ada")
    assert leaked(folder) == []
    with rankd.open(folder) as ranks:
        ranks.verify()


def test_an_erased_player_leaves_segments_and_keeps_its_rank(folder: Path) -> None:
    with rankd.open(folder) as ranks:
        play(ranks)
        board = ranks.board("arena", **BOARD)
        assert board.standing("ada", segment="town:Geheimstadt") is not None
        ranks.erase("ada", unfriend=True)
        assert board.standing("ada", segment="town:Geheimstadt") is None
        standing = board.standing("ada")
        assert standing is not None
        assert (standing.rank, standing.name, standing.metadata) == (1, None, None)
        friends = board.friends("p001")
        assert {one.player for one in friends.standings} == {"p001", "p002"}


def test_a_repeated_submission_of_an_erased_player_is_a_duplicate(folder: Path) -> None:
    with rankd.open(folder) as ranks:
        board = ranks.board("arena", **BOARD)
        first = board.submit("ada", 5, key="k", metadata={"note": "hidden-note"})
        ranks.erase("ada")
        again = board.submit("ada", 5, key="k", metadata={"note": "hidden-note"})
        assert (again.duplicate, again.position) == (True, first.position)
        with pytest.raises(rankd.errors.SubmissionKeyReused):
            board.submit("ada", 6, key="k")
        assert leaked(folder) == []


def test_an_export_has_nothing_of_an_erased_player(folder: Path) -> None:
    with rankd.open(folder) as ranks:
        play(ranks)
        ranks.erase("ada")
    exported = CliRunner().invoke(main, ["export", "arena", "--data", str(folder)])
    assert exported.exit_code == 0
    assert "ada" in exported.output
    assert not any(secret.decode() in exported.output for secret in SECRETS)


# ------------------------------------------------------------------------------- engine

SEASONS: dict[str, Any] = {"rule": "best", "windows": ["all", "daily"], "segments": ["town"]}
CHANGED: dict[str, Any] = {**SEASONS, "rule": "latest"}


async def play_days(ranks: Engine, clock: SetClock) -> None:
    """Have three players on two days, with metadata and segments."""
    await ranks.define("arena", SEASONS)
    for day in range(2):
        for number, player in enumerate(("ann", "bob", "cyd")):
            item = {
                "player": player,
                "score": 10 * day + number,
                "metadata": {"day": day},
                "attributes": {"town": ("rome", "oslo")[(day + number) % 2]},
            }
            await ranks.submit("arena", [item])
        await ranks.profile("ann", {"name": "Ann", "attributes": {"town": "rome"}})
        clock.time += DAY
        await ranks.sealer.turn()


async def redacted_all(ranks: Engine) -> None:
    """Wait until no redaction is left to do."""
    for _ in range(1_000):
        if not ranks.state.unredacted:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(ranks.state.unredacted)


async def folded_again(ledger: FaultyLedger) -> dict[str, object]:
    """Return the state that all facts come to, in an index of its own."""
    async with engine(ledger.anew()) as again:
        return state_of(again.reader.projector)


async def correct(ranks: Engine, change: str) -> None:
    """Have windows folded again, or entries moved, after an erasure."""
    if change == "redefined":
        await ranks.redefine("arena", CHANGED, drop_scores=True)
    elif change == "retracted":
        await ranks.corrections.retract("arena", {"player": "ann", "reason": "test"})
    elif change == "profiled":
        await ranks.profile("ann", {"attributes": {"town": "oslo"}})
        await ranks.submit("arena", [{"player": "ann", "score": 99, "metadata": {"new": 1}}])


@pytest.mark.anyio
@pytest.mark.parametrize("change", ["", "redefined", "retracted", "profiled"])
@pytest.mark.parametrize("redacts", [True, False])
async def test_facts_come_to_the_living_state_redacted_or_not(
    monkeypatch: pytest.MonkeyPatch, change: str, redacts: bool
) -> None:
    ledger, clock = FaultyLedger(), SetClock()
    if not redacts:
        monkeypatch.setattr(Eraser, "redact", AsyncMock())
        monkeypatch.setattr(Eraser, "run", AsyncMock())
    async with engine(ledger, clock) as ranks:
        await play_days(ranks, clock)
        await ranks.erase("ann")
        await correct(ranks, change)
        await verified(ranks)
        living = state_of(ranks.reader.projector)
        assert await folded_again(ledger) == living
        facts = await ledger.facts_of(board=None, player="ann", before=None, limit=100)
        kept = [one for one in facts if one.fact.redacted() is not one.fact]
        assert bool(kept) is (not redacts or change == "profiled")


@pytest.mark.anyio
async def test_closed_windows_lose_metadata_and_segments_and_keep_ranks() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as ranks:
        await play_days(ranks, clock)
        window = "daily:2026-11-14"
        before = await ranks.reader.page("arena", window=window, limit=10)
        assert before.metadata is not None
        await ranks.erase("ann")
        after = await ranks.reader.page("arena", window=window, limit=10)
        assert (after.players, after.ranks) == (before.players, before.ranks)
        shown = dict(zip(after.players, after.metadata or [], strict=True))
        assert shown == {"cyd": b'{"day":0}', "bob": b'{"day":0}', "ann": None}
        for town in ("rome", "oslo"):
            found = await ranks.reader.page(
                "arena", window=window, segment=f"town:{town}", limit=10
            )
            assert "ann" not in found.players


@pytest.mark.anyio
async def test_an_interrupted_redaction_is_finished_at_the_next_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankd.core.erasure.PARTS_TOGETHER", 1)
    ledger, clock = FaultyLedger(), SetClock()
    done: list[object] = []
    put = Eraser._put

    async def dies(eraser: Eraser, *given: Any, **more: Any) -> None:
        if len(done) == 2:
            raise LedgerUnavailable("the process ended", applied="no")
        done.append(given)
        await put(eraser, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Eraser, "_put", dies)
        patched.setattr(Eraser, "run", AsyncMock())
        async with engine(ledger, clock) as ranks:
            await play_days(ranks, clock)
            with pytest.raises(LedgerUnavailable):
                await ranks.erase("ann")
            assert set(ranks.state.unredacted) == {"ann"}
    monkeypatch.setattr("rankd.core.erasure.LOOK_SECONDS", 0.01)
    async with engine(ledger.anew(), clock) as ranks:
        await redacted_all(ranks)
        facts = await ledger.facts_of(board=None, player="ann", before=None, limit=100)
        assert all(one.fact.redacted() is one.fact for one in facts)
        await verified(ranks)


@pytest.mark.anyio
async def test_a_state_snapshot_keeps_erasures() -> None:
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as ranks:
        await play_days(ranks, clock)
        await ranks.erase("ann")
        state = ranks.state
        heading = Heading(VERSION, Position(0), 0, b"", Position(0), {})
        noted = read_notes(take_notes(state, heading)).state
        assert (noted.erased, noted.unredacted) == (state.erased, state.unredacted)
        assert noted.redacted_at == state.redacted_at > 0


@pytest.mark.anyio
async def test_a_redaction_that_another_node_is_at_is_not_made_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankd.core.erasure.LOOK_SECONDS", 0.001)
    monkeypatch.setattr("rankd.core.erasure.LOOKS_PATIENT", 10**9)
    ledger, clock = FaultyLedger(), SetClock()
    async with engine(ledger, clock) as ranks:
        await play_days(ranks, clock)
        redact = AsyncMock()
        with monkeypatch.context() as patched:
            patched.setattr(ranks.eraser, "redact", redact)
            await ranks.erase("ann")
            await asyncio.sleep(0.05)
            redact.assert_awaited_once()
        monkeypatch.setattr("rankd.core.erasure.LOOKS_PATIENT", 1)
        await redacted_all(ranks)
