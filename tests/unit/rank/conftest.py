"""Both implementations of the rank list, so that each promise is kept by each of them."""

import importlib
import os
from types import ModuleType

import pytest


def implementation(name: str) -> ModuleType:
    if name == "native" and os.environ.get("RANKD_PURE", "") not in ("", "0"):
        pytest.skip("asked to judge the stand-in alone")
    return importlib.import_module(f"rankd.rank.{'_ranklist' if name == 'native' else 'oracle'}")


@pytest.fixture(params=["native", "oracle"])
def rank(request: pytest.FixtureRequest) -> ModuleType:
    return implementation(request.param)


@pytest.fixture
def native() -> ModuleType:
    return implementation("native")


@pytest.fixture
def oracle() -> ModuleType:
    return implementation("oracle")
