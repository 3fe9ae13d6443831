"""A player's facts equal those of a scan, whatever happened to the ledger and to its runs."""

import shutil
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random

import pytest
from tests.unit.adapters.sqlite.runs_building import NOW, assert_complete, built, small_runs

from rankd.adapters.sqlite import SQLiteLedger
from rankd.adapters.sqlite.database import PLAYERS
from rankd.adapters.sqlite.read_only import OfflineLedger, ReadOnlyLedger
from rankd.model.facts import BoardDefined, Fact, FriendsSet, NameSet, PlayerErased, ScoreSubmitted

pytestmark = pytest.mark.anyio
GAMES, STEPS = 12, 25


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def facts(dice: Random) -> list[Fact]:
    """Return facts of all kinds, most of them of one busy player."""
    made: list[Fact] = []
    for _ in range(dice.choice((1, 1, 2, 5, 30, 90))):
        player = f"p{min(dice.randrange(12), 3) if dice.random() < 0.7 else dice.randrange(40)}"
        made.append(
            dice.choice(
                [
                    *[ScoreSubmitted(dice.choice("bc"), player, scores=(1,))] * 8,
                    ScoreSubmitted("b", player, delta=1, metadata=b'{"a":[1]}', build="1.0"),
                    NameSet(player, "Ann"),
                    FriendsSet(player, ("p0", "p1")),
                    PlayerErased(player),
                    BoardDefined("b", {"rule": ["p0", {"p": 1}]}),
                ]
            )
        )
    return made


def damage(folder: Path, dice: Random) -> None:
    """Do to some runs what disks, crashes and people do, also while they are built."""
    for path in sorted(folder.iterdir()) if folder.exists() else ():
        with suppress(FileNotFoundError):
            _damage(path, dice)


def _damage(path: Path, dice: Random) -> None:
    data = path.read_bytes()
    match dice.randrange(8):
        case 0:
            path.unlink()
        case 1:
            path.write_bytes(data[: dice.randrange(len(data) + 1)])
        case 2:
            place = dice.randrange(len(data) or 1)
            path.write_bytes(data[:place] + dice.randbytes(1) + data[place + 1 :])
        case 3:
            path.write_bytes(bytes(len(data)))
        case 4:
            path.with_name(f".{path.name}.part").write_bytes(data[:50])
        case _:
            pass


@pytest.mark.parametrize("game", range(GAMES))
async def test_every_history_is_complete(tmp_path: Path, game: int) -> None:
    dice, folder = Random(game), tmp_path / "ledger"
    with small_runs(merged=dice.choice((2, 3, 5)), tail=dice.choice((20, 45, 400))):
        async with AsyncExitStack() as stack:
            ledger = await stack.enter_async_context(SQLiteLedger.open(folder))
            follower: ReadOnlyLedger | None = None
            for _ in range(STEPS):
                match dice.randrange(9):
                    case 0:
                        await ledger.close()
                        damage(folder / PLAYERS, dice)
                        async with OfflineLedger.open(folder) as offline:
                            await assert_complete(offline)
                        ledger = await stack.enter_async_context(SQLiteLedger.open(folder))
                    case 1:
                        damage(folder / PLAYERS, dice)
                    case 2:
                        await built(ledger)
                    case 3:
                        await assert_complete(ledger)
                    case 4 if await ledger.head():
                        if follower is None:
                            opening = ReadOnlyLedger.open(folder)
                            follower = await stack.enter_async_context(opening)
                        await assert_complete(follower)
                    case 5:
                        shutil.rmtree(folder / PLAYERS, ignore_errors=True)
                    case _:
                        await ledger.append(facts(dice), now=NOW)
            await assert_complete(ledger)
