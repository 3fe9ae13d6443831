"""Both kinds of forms, so that each promise is kept by each of them."""

import importlib
from types import ModuleType

import pytest
from tests.standins import native_part

KINDS = ["_native", "pure_python"]


@pytest.fixture(params=KINDS)
def forms(request: pytest.FixtureRequest) -> ModuleType:
    """Return a module of forms."""
    name = f"rankd.templates.{request.param}"
    return native_part(name) if request.param == "_native" else importlib.import_module(name)


@pytest.fixture
def form(forms: ModuleType) -> type:
    """Return a class of forms."""
    found: type = forms.Form
    return found
