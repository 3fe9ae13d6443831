"""Name under which a fact counts once: a board and one of its keys."""

from collections.abc import Sequence
from hashlib import blake2b

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


def name_of(fact: Fact) -> Name | None:
    """Return a fact's board and key; None if it may repeat."""
    if type(fact) is ScoreSubmitted:
        return None if fact.key is None else (fact.board, fact.key)
    key = key_of(fact)
    if key is None:
        return None
    assert isinstance(fact, WindowOpened | WindowSealed | WindowDropped)
    return fact.board, key


def names_of(facts: Sequence[Fact]) -> list[Name | None]:
    """Return the name of each fact. Inlines ``name_of`` for submissions, the usual case."""
    return [
        (fact.board, fact.key)
        if type(fact) is ScoreSubmitted and fact.key is not None
        else name_of(fact)
        for fact in facts
    ]


def plain(facts: Sequence[Fact]) -> bool:
    """Return whether all facts are submissions without a key and without attributes.

    Most are: then there is nothing to look up, and only the facts to write.
    """
    for fact in facts:  # A plain loop is the fastest form.
        if type(fact) is not ScoreSubmitted or fact.key is not None or fact.attributes:
            return False
    return True


def hash_of(board: str, key: str) -> int:
    """Return the hash by which a name is looked up. Two names may share it; their facts differ."""
    digest = blake2b(f"{board}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def fingerprint_of(fact: Fact) -> bytes:
    """Return the digest that distinguishes submissions with one key; empty for other facts."""
    return fingerprint(fact) if isinstance(fact, ScoreSubmitted) else b""
