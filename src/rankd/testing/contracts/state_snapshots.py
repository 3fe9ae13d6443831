"""The contract of StateSnapshots. Subclass it and provide the fixture."""

from collections.abc import Iterator

import pytest

from rankd.errors import SnapshotDamaged
from rankd.model.facts import Position
from rankd.ports import COPIES_KEPT, StateSnapshots

FRAMES = (b"heading", b"", b"\x00\xff" * 100_000, *(b"%d" % number for number in range(40)))
"""Of several sizes, and more than one call brings."""

NEVER_BEFORE = Position(0)


class CopiesContract:
    """The promises of Copies, by number."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def copies(self) -> StateSnapshots:
        raise NotImplementedError

    async def test_1_what_is_loaded_is_what_was_kept(self, copies: StateSnapshots) -> None:
        assert await copies.keep(Position(7), iter(FRAMES), unless_after=NEVER_BEFORE)
        assert await copies.keep(Position(9), [b"other"], unless_after=Position(7))
        assert list(await copies.load(Position(7))) == list(FRAMES)
        assert list(await copies.load(Position(9))) == [b"other"]

    async def test_1_what_is_not_there_is_told(self, copies: StateSnapshots) -> None:
        with pytest.raises(SnapshotDamaged):
            await copies.load(Position(7))

    async def test_2_what_is_broken_off_is_not_kept(self, copies: StateSnapshots) -> None:
        def broken() -> Iterator[bytes]:
            yield b"heading"
            raise ZeroDivisionError

        await copies.keep(Position(7), [b"whole"], unless_after=NEVER_BEFORE)
        with pytest.raises(ZeroDivisionError):
            await copies.keep(Position(9), broken(), unless_after=Position(7))
        assert list(await copies.kept()) == [7]
        with pytest.raises(SnapshotDamaged):
            await copies.load(Position(9))
        assert list(await copies.load(Position(7))) == [b"whole"]

    async def test_3_the_newest_few_are_kept(self, copies: StateSnapshots) -> None:
        assert list(await copies.kept()) == []
        positions = [Position(number * 10) for number in range(1, COPIES_KEPT + 3)]
        for position in positions:
            frame = b"%d" % position
            assert await copies.keep(position, [frame], unless_after=Position(position - 10))
        assert list(await copies.kept()) == positions[: -COPIES_KEPT - 1 : -1]
        for position in await copies.kept():
            assert list(await copies.load(position)) == [b"%d" % position]
        with pytest.raises(SnapshotDamaged):
            await copies.load(positions[0])

    async def test_4_where_one_is_new_enough_no_other_is_kept(self, copies: StateSnapshots) -> None:
        assert await copies.keep(Position(7), [b"first"], unless_after=NEVER_BEFORE)
        for position, unless_after in ((7, 0), (7, 7), (9, 6)):
            frames = [b"second"]
            kept = await copies.keep(
                Position(position), frames, unless_after=Position(unless_after)
            )
            assert not kept, (position, unless_after)
        assert list(await copies.kept()) == [7]
        assert list(await copies.load(Position(7))) == [b"first"]
        assert await copies.keep(Position(9), [b"third"], unless_after=Position(7))
