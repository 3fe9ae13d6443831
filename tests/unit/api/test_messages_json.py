"""What two readers could understand differently is refused; the rest is read as it stands."""

import enum
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.api.messages import DEPTH_MAX, Request, decode_body, decode_json
from rankd.errors import InvalidRequest, MalformedRequest, UnsupportedMediaType


class Rule(enum.Enum):
    BEST = "best"


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    low: int


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    player: str
    score: int = 0
    rule: Rule = Rule.BEST
    inner: list[Inner] = []
    metadata: dict[str, Any] = {}
    build: str | None = None


KNOWN = "player, score, rule, inner, metadata, build"


class Lax(msgspec.Struct):
    player: str


@pytest.mark.parametrize(
    "text",
    [
        b'{"player":"p","score":5}',
        b' { "player" : "p\\u0041\\"" , "score" : -9223372036854775808 } \r\n',
        b'{"player":"\xc3\xa9","metadata":{"a":1,"b":{"a":1}},"inner":[{"low":1},{"low":1}]}',
        b'{"player":"\\ud83d\\ude00"}',
        b'{"player":"{[\\"","metadata":{"player":"p","score":[]}}',
        b'{"player":"p","metadata":' + b'{"a":' * 30 + b"1" + b"}" * 30 + b"}",
    ],
)
def test_good_json_is_read(text: bytes) -> None:
    assert decode_json(text, Strict) == msgspec.json.decode(text, type=Strict)


@pytest.mark.parametrize("kind", [Strict, Lax, Any])
@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"player":"p"} x',
        b'{"player":"p"}{}',
        b'{"player":"p","player":"p"}',
        b'{"player":"p","pl\\u0061yer":"q"}',
        b'{"player":"p","metadata":{"a":1,"a":2}}',
        b'{"player":"p","evil":{"a":1,"a":2}}',
        b'{"player":"p","inner":[{"low":1},{"low":1,"low":1}]}',
        b'{"player":"p\\\\","score":1,"score":2}',
        b'{"player":"p","score":NaN}',
        b'{"player":"p","metadata":{"a":Infinity}}',
        b'{"player":"p","evil":-Infinity}',
        b'{"player":"p","metadata":{"a":1e400}}',
        b'{"player":"p","evil":1e400}',
        b'{"player":"p","evil":' + b"9" * 5000 + b"}",
        b'{"player":"\\ud800"}',
        b'{"player":"p","evil":"\\ud800"}',
        b'{"player":"\\udc00\\ud800"}',
        b'{"player":"\xff"}',
        b'{"player":"p","evil":"\xff"}',
        b'{"player":"\xed\xa0\x80"}',
        b'{"player":"\x01"}',
        b"\xef\xbb\xbf" + b'{"player":"p"}',
        '{"player":"p"}'.encode("utf-16"),
        b'{"player":"p","metadata":' + b'{"a":' * DEPTH_MAX + b"1" + b"}" * (DEPTH_MAX + 1),
        b'{"player":"p","evil":' + b"[" * DEPTH_MAX + b"]" * DEPTH_MAX + b"}",
        b'{"player":"p","evil":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_malformed(text: bytes, kind: Any) -> None:
    with pytest.raises(MalformedRequest):
        decode_json(text, kind)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b'{"a":1e400}', "the body has a number that is too large"),
        (b'{"a":-1e400}', "the body has a number that is too large"),
        (b'{"a":' + b"9" * 5000 + b"}", "the body has a number that is too large"),
        (b'{"a":"\\ud800"}', "the body has half of a surrogate pair, which is no character"),
        (b'{"a":"\\uD800x"}', "the body has half of a surrogate pair, which is no character"),
        (b'["\\udc00", 1e400, NaN]', "the body is not JSON"),
        (b'["\\ud800"', "the body is not JSON"),
        (b'["\\ud800",' + b"[" * 100_000, "the body is not JSON"),
        (b"\xef\xbb\xbf{}", "the body begins with a byte order mark: leave it out"),
        (b'{"a":"\xff"}', "the body is not UTF-8"),
        ('{"a":"\\ud800"}'.encode("utf-16-le"), "the body is not JSON"),
        (b"[" * 100 + b"]" * 100, f"the body nests deeper than {DEPTH_MAX}"),
        (b"[" * 100_000, f"the body nests deeper than {DEPTH_MAX}"),
        (b"{'a': 1}", "the body is not JSON"),
        (b"[NaN]", "the body is not JSON"),
    ],
)  # fmt: skip
def test_what_keeps_a_body_from_being_read_is_said(text: bytes, problem: str) -> None:
    with pytest.raises(MalformedRequest) as told:
        decode_json(text, Any)
    assert told.value.problem == problem


def test_the_deepest_nesting_that_is_taken() -> None:
    at_most = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    decode_json(at_most, Any)
    with pytest.raises(MalformedRequest):
        decode_json(b"[" + at_most + b"]", Any)
    decode_json(b"[" + b"[]," * 1000 + b"[]]", Any)


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (b"{}", "player", "is required"),
        (b"5", "", "must be an object, not a whole number"),
        (b'{"player":5}', "player", "must be text, not a whole number"),
        (b'{"player":null}', "player", "must be text, not null"),
        (b'{"player":"p","score":"<b>"}', "score", "must be a whole number, not text"),
        (
            b'{"player":"p","score":1.5}',
            "score",
            "must be a whole number, not a number with a point",
        ),
        (b'{"player":"p","score":true}', "score", "must be a whole number, not true or false"),
        (b'{"player":"p","inner":"<b>"}', "inner", "must be a list, not text"),
        (b'{"player":"p","inner":[[]]}', "inner[0]", "must be an object, not a list"),
        (b'{"player":"p","build":[]}', "build", "must be text or null, not a list"),
        (b'{"player":"p","rule":"<b>"}', "rule", "has a value it cannot have"),
        (b'{"player":"p","<b>":1}', "?", f"is unknown; known are {KNOWN}"),
        (b'{"player":"p","more":1}', "more", f"is unknown; known are {KNOWN}"),
        (b'{"player":"p","x` - at `evil":1}', "?", f"is unknown; known are {KNOWN}"),
        (
            b'{"player":"p","inner":[{"x` - at `<b>":1}]}',
            "inner[0]",
            "has a field that is not known here",
        ),
        (b'{"player":"p","inner":[{"low":1},{}]}', "inner[1].low", "is required"),
        (b'{"player":"p","inner":[{"<b>":1}]}', "inner[0]", "has a field that is not known here"),
    ],
)
def test_a_wrong_field_is_named_without_repeating_what_was_sent(
    text: bytes, field: str, message: str
) -> None:
    with pytest.raises(InvalidRequest) as told:
        decode_json(text, Strict)
    assert told.value.errors == ((field, message),)


def test_fields_of_other_names_are_told_with_those_that_are_missing() -> None:
    with pytest.raises(InvalidRequest) as told:
        decode_json(b'{"ids":["p1"],"also":1}', Strict)
    assert [field for field, _ in told.value.errors] == ["ids", "also", "player"]
    assert told.value.errors[-1].message == "is required"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    ),
    st.booleans(),
)
def test_whatever_a_json_library_writes_is_read_as_it_was(value: Any, ascii_only: bool) -> None:
    try:
        text = json.dumps(value, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    try:
        assert decode_json(text, Any) == value
    except MalformedRequest:
        assert "\\ud" in json.dumps(value), "only a lone surrogate may be refused"


@given(st.lists(st.sampled_from(["a", "b", "a ", "\\", '"', "é"]), max_size=4))
def test_a_key_that_occurs_twice_is_seen_and_no_other(keys: list[str]) -> None:
    text = "{" + ",".join(f"{json.dumps(key)}:0" for key in keys) + "}"
    if len(set(keys)) == len(keys):
        decode_json(text.encode(), Any)
    else:
        with pytest.raises(MalformedRequest):
            decode_json(text.encode(), Any)


def request(content_type: bytes | None) -> Request:
    headers = {} if content_type is None else {b"content-type": content_type}
    return Request("POST", "/", {}, {}, headers, b'{"player":"p"}')


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json",
        b"Application/JSON; charset=UTF-8",
        b'application/json;charset="utf-8"',
        b"application/vnd.x+json",
    ],
)
def test_a_body_that_says_it_is_json_is_read(content_type: bytes) -> None:
    assert decode_body(request(content_type), Strict) == Strict("p")


@pytest.mark.parametrize(
    "content_type",
    [None, b"", b"text/json", b"application/jsonx", b"application/json; charset=latin-1"],
)
def test_any_other_body_is_not(content_type: bytes | None) -> None:
    with pytest.raises(UnsupportedMediaType):
        decode_body(request(content_type), Strict)


@pytest.mark.parametrize("coding", [b"gzip", b"GZIP", b"br", b"identity, gzip"])
def test_a_compressed_body_is_not_read(coding: bytes) -> None:
    compressed = request(b"application/json")
    compressed.headers = {**compressed.headers, b"content-encoding": coding}
    with pytest.raises(UnsupportedMediaType, match="compressed bodies are not taken"):
        decode_body(compressed, Strict)


@pytest.mark.parametrize("coding", [b"", b"identity", b"Identity"])
def test_a_body_that_is_sent_as_it_is_may_say_so(coding: bytes) -> None:
    plain = request(b"application/json")
    plain.headers = {**plain.headers, b"content-encoding": coding}
    assert decode_body(plain, Strict) == Strict("p")
