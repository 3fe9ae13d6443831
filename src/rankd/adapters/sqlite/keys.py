"""Identities of facts, and the hashes by which they are looked up."""

from collections.abc import Sequence
from hashlib import blake2b

from rankd.model.facts import Fact, Identity, ScoreSubmitted


def identities_of(facts: Sequence[Fact]) -> list[Identity | None]:
    """Return the identity of each fact. Skips the call for plain submissions, the usual case."""
    return [
        None if type(fact) is ScoreSubmitted and fact.key is None else fact.identity()
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
    """Return the hash of an identity. Two identities may share it; their facts differ."""
    digest = blake2b(f"{board}\x1f{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
