"""Both implementations of the rank list, so that each promise is kept by each of them."""

import importlib
from types import ModuleType

import pytest
from tests.standins import PURE, native_part


def implementation(name: str) -> ModuleType:
    if name == "native":
        return native_part("rankd.rank._ranklist")
    return importlib.import_module("rankd.rank.oracle")


@pytest.fixture(params=["native", "oracle"])
def rank(request: pytest.FixtureRequest) -> ModuleType:
    return implementation(request.param)


@pytest.fixture
def native() -> ModuleType:
    return implementation("native")


@pytest.fixture
def oracle() -> ModuleType:
    return implementation("oracle")


@pytest.fixture
def serving() -> ModuleType:
    """The one that serves, for what is too slow to be judged of both or lies beyond them."""
    return implementation("oracle" if PURE else "native")
