"""Answers leave together, in their order, and not to who is gone."""

import asyncio

from rankd.api.connection import DEAD, IDLE, ResponseWriter


class Connection:
    """The part of a connection that the writer uses."""

    def __init__(self, written: list[bytes]) -> None:
        self.phase = IDLE
        self.transport = self
        self.write = written.append


def test_answers_go_out_together_at_the_end_of_an_iteration_and_once() -> None:
    async def iterate() -> None:
        written: list[bytes] = []
        one, other = Connection(written), Connection(written)
        writer = ResponseWriter(asyncio.get_running_loop())
        writer.write(one, b"1")  # type: ignore[arg-type]
        writer.write(other, b"2")  # type: ignore[arg-type]
        writer.write(one, b"3")  # type: ignore[arg-type]
        assert written == []
        await asyncio.sleep(0)
        assert written == [b"1", b"2", b"3"]
        writer.write(one, b"4")  # type: ignore[arg-type]
        writer.flush()  # Something else is about to be written.
        assert written[3:] == [b"4"]
        writer.write(one, b"5")  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written[4:] == [b"5"]

    asyncio.run(iterate())


def test_nothing_is_written_to_who_is_gone() -> None:
    async def leave() -> None:
        written: list[bytes] = []
        here, gone = Connection(written), Connection(written)
        writer = ResponseWriter(asyncio.get_running_loop())
        for connection in (gone, here, gone):
            writer.write(connection, b"%d" % (connection is here))  # type: ignore[arg-type]
        gone.phase = DEAD
        await asyncio.sleep(0)
        assert written == [b"1"]

    asyncio.run(leave())
