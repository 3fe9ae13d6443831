"""What only clients read has the fields that the service writes."""

import msgspec

from rankd.api import keys, messages
from rankd.client import serialization


def names(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


def test_keys_are_read_as_they_are_written() -> None:
    assert names(serialization.Key) <= names(keys.Key)
    assert names(serialization.Keys) == names(keys.Keys)


def test_problems_are_read_as_they_are_written() -> None:
    assert names(serialization.Problem) == names(messages.Problem) - {"type", "title"}
