"""Verifiers: boards that have one hold every submission until it has answered.

The fold holds the submission and lists its review, so open reviews are known after a restart, and
on every node. The node that recorded it asks the verifier; if the review is still open after
TAKEOVER_SECONDS, each node with that verifier does. The answer is recorded like the decision of a
moderator, under the actor ``verifier:NAME``, and the first decision is the one that holds.
"""

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from rankd.core.reviews import Review
from rankd.core.state import State
from rankd.core.writer import WriteResult
from rankd.errors import Overloaded, RankdError
from rankd.model.board import UNPRINTABLE, Board, VerifierOptions
from rankd.model.facts import Position, Recorded, is_submission
from rankd.model.profile import REASON_LENGTH_MAX
from rankd.model.rules import VERIFIER
from rankd.model.runs import elapsed_of_run, read_run_id
from rankd.model.window import Instant
from rankd.ports import (
    HeldSubmission,
    LedgerReader,
    Message,
    MessageSender,
    Verification,
    Verifier,
)

VERIFICATIONS_WAITING_MAX = 8_192
"""Open reviews, beyond which boards with a verifier take no submissions: 503 ``overloaded``. Fewer
than are listed, so that none is forgotten."""

VERIFIED_TOGETHER_MAX = 16
"""Calls of one verifier that run at once in a process."""

CALLS_TOGETHER_MAX = 128
"""Calls of all verifiers that run at once in a process."""

VERIFY_SECONDS_MAX = 60.0
"""For one call; after that it is tried again."""

RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 300.0
"""How soon a verifier that failed is asked again about the same submission: doubled each time."""

TAKEOVER_SECONDS = 30.0
"""When other nodes, and this one after a restart, ask about a submission that is undecided."""

LOOK_SECONDS = 1.0

_log = logging.getLogger(__name__)

Answer = bool | tuple[bool, str]
VerifierFunction = Callable[[HeldSubmission], Answer | Awaitable[Answer]]


class VerifierProblem(Exception):
    """A verifier at an address gave no answer, or not one that decides."""


class UrlAnswer(msgspec.Struct):
    """The body of the answer of a verifier at an address."""

    approved: bool
    reason: str | None = None


_ANSWER = '{"approved": true, "reason": "played again"}'
_encode = msgspec.json.Encoder(decimal_format="number").encode
_decode_answer = msgspec.json.Decoder(UrlAnswer).decode


class Decide(Protocol):
    """Records a decision about a review."""

    def __call__(
        self, id: str, *, approved: bool, actor: str | None, reason: str | None
    ) -> Awaitable[object]:
        """Record it, if the review is open."""


class CallableVerifier:
    """A function as a verifier: True or False, or a pair of that and a reason.

    A plain function runs on a thread, so that it may take its time.
    """

    def __init__(self, function: VerifierFunction) -> None:
        self._function = function

    async def verify(self, submission: HeldSubmission) -> Verification:
        if inspect.iscoroutinefunction(self._function):
            answer = await self._function(submission)
        else:
            answer = await asyncio.to_thread(self._function, submission)
        approved, reason = answer if isinstance(answer, tuple) else (answer, None)
        if not isinstance(approved, bool):
            raise TypeError(f"a verifier returns True or False, not {type(approved).__name__}")
        return Verification(approved, reason)


class UrlVerifier:
    """A service at an address as a verifier: it is posted the submission, and answers JSON."""

    def __init__(
        self, sender: MessageSender, url: str, secret: str | None, now: Callable[[], Instant]
    ) -> None:
        self._sender, self._url, self._secret, self._now = sender, url, secret, now

    async def verify(self, submission: HeldSubmission) -> Verification:
        body = _encode({**submission._asdict(), "score": submission.score})
        message = Message(self._url, f"review_{submission.id}", body, self._secret)
        time = self._now() // 1_000_000
        result = await self._sender.send(message, time=time, seconds_max=VERIFY_SECONDS_MAX)
        if result.problem is not None:
            raise VerifierProblem(result.problem)
        if result.status != 200:
            raise VerifierProblem(f"the answer has the status {result.status}, not 200")
        try:
            answer = _decode_answer(result.body)
        except msgspec.DecodeError:
            raise VerifierProblem(f"the answer is not like {_ANSWER}") from None
        return Verification(answer.approved, _shortened(answer.reason))


def _shortened(reason: str | None) -> str | None:
    """Return the beginning of a reason as reviews take it; None if nothing is left of it."""
    if reason is None:
        return None
    return UNPRINTABLE.sub(" ", reason)[:REASON_LENGTH_MAX].strip() or None


class VerifierLoop:
    """Asks the verifiers of this process about held submissions, and records their answers."""

    def __init__(
        self,
        ledger: LedgerReader,
        state: Callable[[], State],
        now: Callable[[], Instant],
        decide: Decide,
    ) -> None:
        self._ledger, self._state, self._now, self._decide = ledger, state, now, decide
        self.verifiers: Mapping[str, Verifier] = {}
        """By the names that definitions have."""
        self.sender: MessageSender | None = None
        """Posts to verifiers at an address; None to leave those to other processes."""
        self.takes_over = True
        """Whether it asks verifiers at an address about submissions of other nodes."""
        self._recorded_here: set[Position] = set()
        self._asked: dict[Position, asyncio.Task[None]] = {}
        self._calls: Counter[VerifierOptions] = Counter()
        """The calls that run, by their verifier."""
        self._retry: dict[Position, tuple[float, float]] = {}
        """When to ask again, by the loop's clock, and the pause before that."""
        self._woken = asyncio.Event()

    def check_room(self, boards: Iterable[Board]) -> None:
        """Raise Overloaded if a board has a verifier and too many submissions wait."""
        verified = any(board.verifier is not None for board in boards)
        if verified and self._state().reviews.open_count >= VERIFICATIONS_WAITING_MAX:
            raise Overloaded(waiting_max=VERIFICATIONS_WAITING_MAX)

    def notice(self, results: Iterable[WriteResult], boards: Iterable[Board]) -> None:
        """Ask about those of these submissions that are held, without waiting for other nodes.

        ``boards`` are those of the submissions.
        """
        if all(board.verifier is None for board in boards):
            return
        for one in results:
            if one.receipt is not None and one.receipt.verdict == "held" and not one.duplicate:
                self._recorded_here.add(one.position)
                self._woken.set()

    async def run(self) -> None:
        """Ask until the engine stops."""
        try:
            while True:
                self._woken.clear()
                self._begin()
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._woken.wait()
                except TimeoutError:
                    pass
        finally:
            asked = list(self._asked.values())
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)

    def _begin(self) -> None:
        """Ask about the oldest submissions that are due."""
        listed = self._state().reviews.listed if self._verifies else {}
        waiting = [review for review in listed.values() if self._is_waiting(review)]
        positions = {review.position for review in waiting}
        self._recorded_here &= positions
        self._retry = {at: due for at, due in self._retry.items() if at in positions}
        time = asyncio.get_running_loop().time()
        for review in sorted(waiting, key=lambda one: one.position):
            if len(self._asked) >= CALLS_TOGETHER_MAX:
                return
            options = self._options_of(review)
            if options is None or self._calls[options] >= VERIFIED_TOGETHER_MAX:
                continue
            if review.position not in self._asked and self._is_due(review, options, time):
                self._calls[options] += 1
                task = asyncio.create_task(self._ask(review, options))
                self._asked[review.position] = task

    def _is_waiting(self, review: Review) -> bool:
        return (
            review.state == "held"
            and any(reason.rule == VERIFIER for reason in review.reasons)
            and self._options_of(review) is not None
        )

    @property
    def _verifies(self) -> bool:
        """Whether there is a verifier that this process could ask."""
        if self.verifiers:
            return True
        boards = self._state().boards.values()
        return self.sender is not None and any(page.board.verifier for page in boards)

    def _options_of(self, review: Review) -> VerifierOptions | None:
        """Return the verifier of a review's board, if this process can ask it."""
        page = self._state().boards.get(review.board)
        options = None if page is None else page.board.verifier
        if options is None:
            return None
        known = options.name in self.verifiers if options.url is None else self.sender is not None
        return options if known else None

    def _verifier(self, options: VerifierOptions, board: str) -> Verifier:
        if options.url is None:
            return self.verifiers[options.name or ""]
        assert self.sender is not None
        secret = None if options.key is None else self._secret(options.key, board)
        return UrlVerifier(self.sender, options.url, secret, self._now)

    def _secret(self, id: str, board: str) -> str:
        """Return the secret of a key. Raises VerifierProblem."""
        key = self._state().signing_keys.get(id)
        if key is None or key.algorithm != "webhook":
            raise VerifierProblem(f"there is no key {id} that signs webhooks")
        if key.expires is not None and key.expires <= self._now():
            raise VerifierProblem(f"the key {id} has expired")
        if key.boards is not None and board not in key.boards:
            raise VerifierProblem(f"the key {id} is for other boards")
        return key.material.decode()

    def _is_due(self, review: Review, options: VerifierOptions, time: float) -> bool:
        due, _ = self._retry.get(review.position, (0.0, 0.0))
        waited = (self._now() - review.at) / 1_000_000
        left = waited >= TAKEOVER_SECONDS and (options.url is None or self.takes_over)
        return (review.position in self._recorded_here or left) and time >= due

    async def _ask(self, review: Review, options: VerifierOptions) -> None:
        try:
            await self._verify(review, options.actor, self._verifier(options, review.board))
        except VerifierProblem as exc:
            self._fail(review, str(exc))
        except RankdError as exc:
            self._fail(review, f"the decision could not be recorded: {exc}")
        except TimeoutError:
            self._fail(review, f"no answer within {VERIFY_SECONDS_MAX:g} seconds")
        except Exception as exc:  # Of the verifier: a program of somebody else's.
            self._fail(review, f"{type(exc).__name__}: {exc}")
        finally:
            del self._asked[review.position]
            self._calls[options] -= 1
            if not self._calls[options]:
                del self._calls[options]
            self._woken.set()

    async def _verify(self, review: Review, actor: str, verifier: Verifier) -> None:
        after = Position(review.position - 1)
        (recorded,) = await self._ledger.read(after=after, limit=1)
        page = self._state().page(review.board)
        held = held_submission(recorded, page.board_at(review.position))
        async with asyncio.timeout(VERIFY_SECONDS_MAX):
            found = await verifier.verify(held)
        await self._decide(review.id, approved=found.approved, actor=actor, reason=found.reason)

    def _fail(self, review: Review, why: str) -> None:
        _, before = self._retry.get(review.position, (0.0, RETRY_SECONDS_MIN / 2))
        pause = min(2 * before, RETRY_SECONDS_MAX)
        self._retry[review.position] = (asyncio.get_running_loop().time() + pause, pause)
        _log.warning(
            "the verifier of board %s is asked about %s again in %g s: %s",
            review.board,
            review.id,
            pause,
            why,
        )


def held_submission(recorded: Recorded, board: Board) -> HeldSubmission:
    """Return a recorded submission as its verifier gets it."""
    fact = recorded.fact
    assert is_submission(fact)
    names = [column.name for column in board.columns]
    run = None if fact.run is None else read_run_id(fact.run)
    elapsed = elapsed_of_run(fact, recorded.at)
    return HeldSubmission(
        id=str(recorded.position),
        board=fact.board,
        player=fact.player,
        columns=None
        if fact.scores is None
        else dict(zip(names, map(board.show_score, fact.scores), strict=False)),
        delta=None if fact.delta is None else board.show_score(fact.delta),
        key=fact.key,
        metadata=None if fact.metadata is None else msgspec.json.decode(fact.metadata),
        build=fact.build,
        seed=None if run is None else run.seed,
        run_seconds=None if elapsed is None else elapsed / 1_000_000,
        run=fact.run,
    )
