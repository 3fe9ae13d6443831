"""Runs: started with a signed token, and checked before a submission is recorded.

Starting one records nothing but, at first and each month, the key that signs them. Signature,
board, player and time are checked here, where a refusal leaves the run as it was. That a run is
used once is decided in the fold (``State.admit``), alike on every node.
"""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from rankd.core.board_state import BoardState
from rankd.core.state import State
from rankd.core.writer import Writer
from rankd.errors import PlayerBanned, RunExpired, RunInvalid, RunRequired, RunTooEarly
from rankd.model.board import Board
from rankd.model.facts import ScoreSubmitted, SigningKeyCreated
from rankd.model.profile import check_player
from rankd.model.runs import NONCE_BYTES, RunId, RunToken, read_run_token, run_token
from rankd.model.window import Instant
from rankd.ports import LedgerReader

KEY_BYTES = 32
KEY_ID_BYTES = 6

KEY_MICROSECONDS = 30 * 86_400 * 1_000_000
"""A new key signs runs after 30 days; those of the former one are good until their time is over."""


class StartedRun(NamedTuple):
    """A run that has begun."""

    run: str
    """The token."""
    seed: str
    """A random number for the game, in hex."""
    not_before: Instant
    """The first instant at which a submission may use it."""
    expires_at: Instant
    """The first instant at which none may any more."""


class Runs:
    """Starts the runs of an engine, and checks those that submissions name."""

    def __init__(
        self, ledger: LedgerReader, writer: Writer, page: Callable[[str], Awaitable[BoardState]]
    ) -> None:
        self._ledger, self._writer, self._page = ledger, writer, page

    async def start(self, board: str, player: str) -> StartedRun:
        """Begin a run. Raises UnknownBoard, InvalidProfile and PlayerBanned."""
        check_player(player)
        page, now = await self._page(board), self._writer.now()
        state = self._state.player_state(player, board)
        if state is not None and state.state == "banned":
            raise PlayerBanned(board=board, player=player)
        key, options = await self._key_at(now), page.board.run_options
        nonce = secrets.token_bytes(NONCE_BYTES)
        run = RunId(now, options.seconds_min, options.seconds_max, nonce)
        token = run_token(run, key=key.id, secret=key.material, board=board, player=player)
        return StartedRun(token, run.seed, run.not_before, run.expires)

    async def checked(
        self, facts: Sequence[ScoreSubmitted], board: Board
    ) -> Sequence[ScoreSubmitted]:
        """Return submissions to a board with the ids of their runs in place of the tokens.

        Repetitions under a key need no run that the first time had none. Raises RunRequired,
        RunInvalid, RunTooEarly and RunExpired.
        """
        required = board.run_options.required
        if not required and all(fact.run is None for fact in facts):
            return facts
        return [await self._checked(fact, required=required) for fact in facts]

    async def _checked(self, fact: ScoreSubmitted, *, required: bool) -> ScoreSubmitted:
        if fact.run is None:
            if required and not await self._is_repeated(fact):
                raise RunRequired
            return fact
        run = (await self._verified(fact)).run
        now = self._writer.now()
        if now < run.not_before:
            raise RunTooEarly
        if now >= run.expires and not await self._is_repeated(fact):
            raise RunExpired
        return msgspec.structs.replace(fact, run=run.text)

    async def _verified(self, fact: ScoreSubmitted) -> RunToken:
        """Return a token that was signed here, for this board and player. Raises RunInvalid."""
        token = read_run_token(fact.run or "")
        if token is None:
            raise RunInvalid
        if token.key not in self._state.signing_keys:
            await self._writer.see_others()  # Another node may have made the key a moment ago.
        key = self._state.signing_keys.get(token.key)
        if key is None or key.algorithm != "run":
            raise RunInvalid
        if not token.is_signed(key.material, board=fact.board, player=fact.player):
            raise RunInvalid
        return token

    async def _is_repeated(self, fact: ScoreSubmitted) -> bool:
        """Whether a submission was recorded before under its key: it gets its first answer."""
        if fact.key is None:
            return False
        return await self._ledger.first_use(board=fact.board, key=fact.key) is not None

    async def signing_key(self) -> SigningKeyCreated:
        """Return the key that signs now, made here if there is none."""
        return await self._key_at(self._writer.now())

    async def _key_at(self, now: Instant) -> SigningKeyCreated:
        """Return the newest key, made here if there is none or its month is over.

        Several nodes may each make one: all of them check runs.
        """
        key = self._state.run_key()
        if key is not None and now - self._state.keys_created[key.id] < KEY_MICROSECONDS:
            return key
        id = secrets.token_hex(KEY_ID_BYTES)
        made = SigningKeyCreated(id, "run", secrets.token_bytes(KEY_BYTES), title="runs")
        await self._writer.put([made])
        return made

    @property
    def _state(self) -> State:
        return self._writer.projector.state
