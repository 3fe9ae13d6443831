"""Certificates of settled windows: their contents, and the check of one against the ledger.

A certificate says which standings were declared final, and from which facts they follow. To check
one, all facts up to its last position are folded again, and each of its claims is compared.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from rankd.core.board_state import BoardState, SealedWindow
from rankd.core.reader import Reader
from rankd.core.recovery import Build, folded
from rankd.core.settlement import rewards_digest_of
from rankd.core.window_control import count_submissions, digest_of
from rankd.errors import CertificateDiffers, FieldError, InvalidRequest, NotSettled
from rankd.model.certificate import definition_digest
from rankd.model.facts import Position
from rankd.model.window import Instant, WindowState
from rankd.ports import LedgerReader, Progress

TOP_LENGTH = 10
"""Standings that a certificate shows."""


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The claims about a settled window. Digests and the chain are in hexadecimal."""

    board: str
    window: str
    edition: int = 1
    definition_digest: str
    ledger_from: int
    ledger_to: int
    chain: str
    submissions: int
    players: int
    standings_digest: str
    rewards: int = 0
    rewards_digest: str = ""
    """Empty if there are none."""


def certificate_of(page: BoardState, window: str, now: Instant) -> Certificate:
    """Return the certificate of a window. Raises UnknownWindow, NotSettled."""
    found = page.find_window(window, now)
    settled = found.settled if isinstance(found, SealedWindow) else None
    board = page.board.name
    if settled is None or found.state is not WindowState.FINAL:
        raise NotSettled(board=board, window=found.window.id, state=found.state)
    return Certificate(
        board=board,
        window=settled.window,
        edition=settled.edition,
        definition_digest=definition_digest(found.terms.board).hex(),
        ledger_from=settled.first,
        ledger_to=settled.last,
        chain=settled.chain.hex(),
        submissions=settled.submissions,
        players=settled.players,
        standings_digest=settled.standings.hex(),
        rewards=settled.rewards,
        rewards_digest=settled.rewards_digest.hex(),
    )


def read_certificate(text: bytes) -> Certificate:
    """Return the certificate in a file. Raises InvalidRequest."""
    try:
        return msgspec.json.decode(text, type=Certificate)
    except msgspec.DecodeError as exc:
        raise InvalidRequest([FieldError("certificate", f"cannot be read: {exc}")]) from None


class NoClock:
    """The clock of a reader to which no window is named by the time."""

    def now(self) -> Instant:
        return Instant(0)


async def check_certificate(
    ledger: LedgerReader,
    build: Build,
    certificate: Certificate,
    tell: Callable[[Progress], None],
) -> None:
    """Fold the ledger again, and compare every claim. Raises CertificateDiffers."""
    last = Position(certificate.ledger_to)
    if last > await ledger.head():
        raise CertificateDiffers(("ledger_to",))
    link = await ledger.link_at(last)
    if link is None or link.hex() != certificate.chain:
        raise CertificateDiffers(("chain",))
    shadow = folded(ledger, build().apart())
    await shadow.catch_up(through=last, tell=tell)
    page = shadow.state.boards.get(certificate.board)
    sealed = None if page is None else page.sealed.get(certificate.window)
    if sealed is None:
        raise CertificateDiffers(("board", "window"))
    reader = Reader(projector=shadow, clock=NoClock())
    digest = await digest_of(reader, certificate.board, certificate.window)
    rewards = await rewards_digest_of(reader, certificate.board, sealed)
    first = Position(certificate.ledger_from)
    found: dict[str, Any] = {
        "edition": shadow.state.edition(certificate.board, certificate.window),
        "definition_digest": definition_digest(sealed.terms.board).hex(),
        "submissions": await count_submissions(ledger, certificate.board, first, sealed.through),
        "players": digest.players,
        "standings_digest": digest.digest().hex(),
        "rewards": rewards.rewards,
        "rewards_digest": rewards.digest().hex(),
    }
    wrong = tuple(name for name, value in found.items() if getattr(certificate, name) != value)
    if wrong:
        raise CertificateDiffers(wrong)
