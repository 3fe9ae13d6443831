"""The name under which a fact counts once: a board and one of its keys."""

from collections.abc import Sequence
from hashlib import blake2b
from operator import attrgetter

from rankd.model.facts import (
    Fact,
    ScoreSubmitted,
    WindowDropped,
    WindowOpened,
    WindowSealed,
    fingerprint,
    key_of,
)

Name = tuple[str, str]

_key = attrgetter("key")


def name_of(fact: Fact) -> Name | None:
    """Return a fact's board and key, or None if it may repeat."""
    if type(fact) is ScoreSubmitted:  # Nearly all facts are, and each is asked.
        return None if fact.key is None else (fact.board, fact.key)
    key = key_of(fact)
    if key is None:
        return None
    assert isinstance(fact, WindowOpened | WindowSealed | WindowDropped)
    return fact.board, key


def nameless(facts: Sequence[Fact]) -> bool:
    """Return whether these are all submissions without a key: most appends are, and often large."""
    plain = set(map(type, facts)) <= {ScoreSubmitted}
    return plain and list(map(_key, facts)).count(None) == len(facts)


def hash_of(board: str, key: str) -> int:
    """Return what a name is looked up by. Two names may share it; the facts tell them apart."""
    digest = blake2b(f"{board}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def fingerprint_of(fact: Fact) -> bytes:
    """Return what tells two facts of one name apart: nothing, but for submissions."""
    return fingerprint(fact) if isinstance(fact, ScoreSubmitted) else b""
