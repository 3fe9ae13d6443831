"""Answers leave together, in their order, and not to who is gone."""

import asyncio

from rankd.api.connection import DEAD, IDLE
from rankd.api.outbox import Outbox


class Connection:
    """What an outbox knows of a connection."""

    def __init__(self, written: list[bytes]) -> None:
        self.phase = IDLE
        self.transport = self
        self.write = written.append


def test_answers_go_out_together_at_the_end_of_a_turn_and_once() -> None:
    async def turn() -> None:
        written: list[bytes] = []
        one, other = Connection(written), Connection(written)
        outbox = Outbox(asyncio.get_running_loop())
        outbox.post(one, b"1")  # type: ignore[arg-type]
        outbox.post(other, b"2")  # type: ignore[arg-type]
        outbox.post(one, b"3")  # type: ignore[arg-type]
        assert written == []
        await asyncio.sleep(0)
        assert written == [b"1", b"2", b"3"]
        outbox.post(one, b"4")  # type: ignore[arg-type]
        outbox.send()  # Something else is about to be written.
        assert written[3:] == [b"4"]
        outbox.post(one, b"5")  # type: ignore[arg-type]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written[4:] == [b"5"]

    asyncio.run(turn())


def test_nothing_is_written_to_who_is_gone() -> None:
    async def leave() -> None:
        written: list[bytes] = []
        here, gone = Connection(written), Connection(written)
        outbox = Outbox(asyncio.get_running_loop())
        for connection in (gone, here, gone):
            outbox.post(connection, b"%d" % (connection is here))  # type: ignore[arg-type]
        gone.phase = DEAD
        await asyncio.sleep(0)
        assert written == [b"1"]

    asyncio.run(leave())
