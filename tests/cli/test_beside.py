"""Care of a folder while a service has it open, and takes scores all the time."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.cli.running import Ran, Served, run, serving

from rankd.client import Client
from rankd.errors import RankdError
from rankd.schemas import Receipt

BATCH = 200
DATA = ("--data", "data")


class Load:
    """Somebody who submits as fast as it goes, each score of another player, and keeps count."""

    def __init__(self, served: Served) -> None:
        self.players: dict[int, str] = {}
        """Who was acknowledged, by position."""
        self.last = 0
        """The position of the last that was acknowledged."""
        self.failure: RankdError | None = None
        self._served = served
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._submit)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self.end()

    def end(self) -> None:
        self._ending.set()
        self._thread.join()

    def _submit(self) -> None:
        numbers = count()
        try:
            with Client(self._served.url) as client:
                while not self._ending.is_set():
                    some = [next(numbers) for _ in range(BATCH)]
                    self._note(client, [_score(number) for number in some])
        except RankdError as exc:
            self.failure = exc

    def _note(self, client: Client, scores: list[dict[str, object]]) -> None:
        results = client.submit_batch(scores, board="b")
        places = [each.position or 0 for each in results if isinstance(each, Receipt)]
        names = [str(score["player"]) for score in scores]
        self.players.update(zip(places, names, strict=True))
        self.last = max(places)


def _score(number: int) -> dict[str, object]:
    region = {"region": ("eu", "na")[number % 2]}
    return {"player": f"p{number}", "score": number, "key": f"k{number}", "attributes": region}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Load]:
    """A service on the folder ``data``, under load, with some facts already."""
    with serving(tmp_path) as served:
        with Client(served.url) as client:
            client.define("b", {"segments": ["region"]})
        load = Load(served)
        with load.going_on():
            while load.last < 10 * BATCH and load.failure is None:
                time.sleep(0.01)
            yield load
        assert load.failure is None


def done(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return ran.out


@pytest.mark.timeout(300)
def test_a_backup_beside_a_busy_service_holds_all_that_was_acknowledged_before(busy: Load) -> None:
    before = busy.last
    said = re.fullmatch(
        r"copy is a backup of data as of ([\d,]+), and whole\n", done(run("backup", "copy", *DATA))
    )
    assert said is not None
    position = int(said[1].replace(",", ""))
    assert run("backup", "copy", *DATA).code == 1, "nothing is overwritten"
    busy.end()
    assert before <= position < busy.last, "and it went on meanwhile"

    done(run("restore", "copy", "--data", "again"))
    assert f"is whole: {position:,} facts" in done(run("verify", "--data", "again"))
    exported = done(run("export", "b", "--format", "jsonl", "--data", "again"))
    players = {json.loads(line)["player"] for line in exported.splitlines()}
    assert players == {player for at, player in busy.players.items() if at <= position}


@pytest.mark.timeout(300)
def test_a_busy_service_is_verified_up_to_now_and_its_index_is_not_claimed(busy: Load) -> None:
    before = busy.last
    said = done(run("verify", *DATA))
    assert said.startswith("data is whole: ") and "index was not compared" in said
    found = json.loads(done(run("verify", *DATA, "--json")))
    assert (found["whole"], found["index_compared"]) == (True, False)
    busy.end()
    assert before < found["position"] <= busy.last
