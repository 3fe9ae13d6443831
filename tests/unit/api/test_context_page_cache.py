"""Ready-made pages: found while nothing changes, and never afterwards."""

import pytest

from rankd.api import context
from rankd.api.context import PageCache
from rankd.api.messages import Response

ONE, OTHER = Response(b"1"), Response(b"2")


def test_a_page_is_found_at_its_moment_alone() -> None:
    kept = PageCache()
    assert kept.find(1, "top") is None
    kept.keep(1, "top", ONE)
    assert kept.find(1, "top") is ONE
    assert kept.find(2, "top") is None
    assert kept.find(1, "second page") is None


def test_a_moment_takes_the_place_of_the_one_before() -> None:
    kept = PageCache()
    kept.keep(1, "top", ONE)
    kept.keep(2, "other", OTHER)
    assert kept.find(1, "top") is None
    assert kept.find(2, "top") is None
    assert kept.find(2, "other") is OTHER


def test_so_many_are_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "PAGES_MAX", 3)
    kept = PageCache()
    for number in range(10):
        kept.keep(1, number, ONE)
        assert sum(kept.find(1, each) is not None for each in range(10)) <= 3
        assert kept.find(1, number) is ONE
