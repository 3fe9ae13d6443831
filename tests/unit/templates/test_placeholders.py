"""A shape with blanks becomes a form of the same shape."""

from typing import Any

import msgspec
import pytest

from rankd.templates import Placeholder, PlaceholderKind, parts_of


class Shape(msgspec.Struct):
    name: Any
    numbers: dict[str, Any]


def test_blanks_are_found_wherever_they_are_and_in_their_order(form: Any) -> None:
    one, two, three = (
        Placeholder(PlaceholderKind.TEXT, 0),
        Placeholder(PlaceholderKind.NUMBER, 1),
        Placeholder(PlaceholderKind.OPTIONAL, 2),
    )
    parts = parts_of(Shape(one, {"a": two, "0\0": [three, None, "text"]}))
    assert [part for part in parts if isinstance(part, Placeholder)] == [one, two, three]
    for values in [("x", 1, 2), (None, -1, 0)]:
        filled = form(parts).fill_one(values)
        expected = Shape(values[0], {"a": values[1], "0\0": [values[2] or None, None, "text"]})
        assert filled == msgspec.json.encode(expected)


def test_a_text_that_looks_like_a_mark_is_a_text(form: Any) -> None:
    """Names of boards and windows are in shapes, and have no control characters; still."""
    assert form(parts_of({"a": "\\u00000\\u0000"})).fill_one(()) == b'{"a":"\\\\u00000\\\\u0000"}'


def test_what_is_neither_json_nor_a_blank_is_refused() -> None:
    with pytest.raises(AssertionError, match="cannot be a part of a form"):
        parts_of({"a": object()})
