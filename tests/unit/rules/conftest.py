"""Both states of rules, so that each promise is kept by each of them."""

import importlib
from array import array
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from tests.standins import native_part

KINDS = ["_native", "oracle"]

SECOND = 1_000_000


class Declared(NamedTuple):
    """A rule as a board declares it."""

    rule: str
    then: str
    limit: int
    quantile: int = 0
    after: int = 0


class Judge:
    """A state of rules, and a clock for submissions that do not say their time."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.now = 1_000_000 * SECOND

    def __call__(
        self,
        *scores: int,
        player: str = "ann",
        at: float | None = None,
        delta: bool = False,
        elapsed: int = 0,
    ) -> list[str]:
        """Judge scores of one player; return the verdict of each."""
        times = self.now if at is None else round(at * SECOND)
        broken = self.state.judge(
            [player] * len(scores),
            array("q", scores),
            bytes([delta]) * len(scores) if delta else None,
            array("q", [times] * len(scores)),
            array("q", [elapsed] * len(scores)) if elapsed else None,
        )
        self.state.check()
        found = broken or bytes(len(scores))
        return [("fine", "flag", "hold", "refuse")[verdict] for verdict in found]

    def observed(self, row: int = 0) -> list[tuple[int, int, int]]:
        reasons: list[tuple[int, int, int]] = self.state.reasons(row)
        return reasons


Make = Callable[..., Judge]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> ModuleType:
    name = f"rankd.rules.{request.param}"
    return native_part(name) if request.param == "_native" else importlib.import_module(name)


@pytest.fixture
def judging(kind: ModuleType) -> Make:
    """Return a maker of states of one kind."""

    def make(*rules: Sequence[Any], rule_of_board: str = "best", higher_wins: bool = True) -> Judge:
        return Judge(
            kind.RuleState([Declared(*rule) for rule in rules], rule_of_board, higher_wins)
        )

    return make
