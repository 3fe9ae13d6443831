"""The native index keeps the promises of an index, over the native list and over its stand-in."""

from typing import Any

import pytest

from rankd.adapters.memory.index import NativeIndex
from rankd.ports import RankIndex
from rankd.rank import oracle
from rankd.testing.contracts import RankIndexContract

_: type[RankIndex] = NativeIndex  # mypy sees whether the methods are those of the port.


class TestNativeIndex(RankIndexContract):
    @pytest.fixture
    def index(self) -> NativeIndex:
        return NativeIndex()


class TestOracleIndex(RankIndexContract):
    """Where there was no compiler."""

    @pytest.fixture
    def index(self) -> NativeIndex:
        players: Any = oracle.PlayerTable
        lists: Any = oracle.RankList
        return NativeIndex(make_players=players, make_list=lists)
