"""What only clients read has the fields that the service writes."""

import msgspec

from rankd.api import keys, problems
from rankd.client import client_schemas


def names(shape: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(shape)}


def test_keys_are_read_as_they_are_written() -> None:
    assert names(client_schemas.Key) <= names(keys.Key)
    assert names(client_schemas.Keys) == names(keys.Keys)


def test_problems_are_read_as_they_are_written() -> None:
    assert names(client_schemas.Problem) == names(problems.Problem) - {"type", "title"}
