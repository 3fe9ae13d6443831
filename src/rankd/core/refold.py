"""Corrections as moves: the fold handlers of retractions, reviews, player states and metadata.

A correction is folded alone, as one apply: readers see all of it or nothing. The players that it
concerns are folded again by their own facts (``player_history``), and the moves are the difference
from the index. The earlier entries of a closed window are kept beside it as an edition:

- ``Ranking.replaced(n)`` holds the entries that edition ``n`` had and the next one changed,
- ``Ranking.added(n)`` the players that had none in it, and have one in the next.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from rankd.core.board_state import BoardState, OpenedWindow, SealedWindow
from rankd.core.fold import Fold
from rankd.core.fold_handlers import register_fold
from rankd.core.move_batch import MoveBatch
from rankd.core.player_history import PlayerHistory, corrections_of, facts_of_player
from rankd.core.state import segments_of
from rankd.model.facts import (
    Attributes,
    Edition,
    MetadataSet,
    PersonErased,
    PlayerStateSet,
    Position,
    Recorded,
    RetractionUndone,
    ReviewDecided,
    ScoresExpired,
    ScoresRetracted,
    as_erased,
    is_submission,
)
from rankd.ports import LedgerReader, Ranking

FACTS_TOGETHER = 8_192
"""Facts read at once while the players of a retraction are looked for."""

PLACES_TOGETHER = 4_096
"""Entries looked up at once while those of a player are looked for."""

BoardPlayer = tuple[str, str]
"""A board, and a player with facts on it."""


async def selected_players(
    ledger: LedgerReader, fact: ScoresRetracted, *, before: Position
) -> dict[BoardPlayer, None]:
    """Return the players with submissions that a retraction selects, by board, in order."""
    found: dict[BoardPlayer, None] = {}

    def note(several: Sequence[Recorded]) -> None:
        for recorded in several:
            if recorded.position < before and fact.selects(recorded):
                selected = recorded.fact
                assert is_submission(selected)
                found[selected.board, selected.player] = None

    if fact.positions:
        for position in fact.positions:
            note(await ledger.read(after=Position(position - 1), limit=1))
        return found
    named = fact.players or ((fact.player,) if fact.player is not None else ())
    if named and fact.board is not None:
        return {(fact.board, player): None for player in named}
    for player in named or (None,):
        async for some in _facts_between(ledger, fact, player, before):
            note(some)
    return found


async def _facts_between(
    ledger: LedgerReader, fact: ScoresRetracted, player: str | None, before: Position
) -> AsyncIterator[Sequence[Recorded]]:
    """Yield the facts in the range of a retraction, in parts: a player's, or all of them."""
    after = Position((fact.first or 1) - 1)
    until = before if fact.last is None else min(before, Position(fact.last + 1))
    while after < until - 1:
        if player is None:
            some = await ledger.read(after=after, limit=min(FACTS_TOGETHER, until - 1 - after))
        else:
            some = await ledger.facts_of(
                board=None,
                player=player,
                after=after,
                before=until,
                limit=FACTS_TOGETHER,
                newest_first=False,
            )
        if not some:
            break
        yield some
        after = some[-1].position


async def refold_player(
    fold: Fold,
    begun: MoveBatch,
    page: BoardState,
    player: str,
    *,
    through: Position,
    editions: Sequence[Edition],
) -> None:
    """Make the moves from a player's entries to those that its facts come to now."""
    facts = await facts_of_player(fold.ledger, page, player, fold.state.erased, through=through)
    corrections = corrections_of(fold.state, page, facts)
    history = PlayerHistory(page, facts, corrections, fold.state.wrong_times)
    for id in history.windows:
        recorded = recorded_window(page, id)
        entry = history.entries.get(id)
        after = None if entry is None else (entry.order_key, entry.metadata)
        edition = Edition(page.board.name, id) in editions
        await _replace(fold, begun, page, recorded, player, after, new_edition=edition)


def recorded_window(page: BoardState, id: str) -> OpenedWindow | SealedWindow:
    """Return an open or closed window of a board by its id."""
    sealed = page.sealed.get(id)
    if sealed is not None:
        return sealed
    return next(opened for opened in page.counting if opened.window.id == id)


async def _replace(  # noqa: PLR0913 - a window of a page, a player, and its entry
    fold: Fold,
    begun: MoveBatch,
    page: BoardState,
    window: OpenedWindow | SealedWindow,
    player: str,
    after: tuple[bytes, bytes | None] | None,
    *,
    new_edition: bool,
) -> None:
    """Put an entry in place of the one that a player has in a window and its segments."""
    before = await fold.entry(begun, fold.home(window.ranking, player), player)
    if before == after:
        return
    segments = await _segments_of(fold, begun, page, window, player, entered=before is not None)
    rankings = [window.ranking, *segments]
    ties = window.terms.board.ties
    for ranking in rankings:
        home = fold.home(ranking, player)
        begun.opened[home] = window.terms.shape
        order_key, metadata = after or (None, None)
        begun.put((home, player), order_key, metadata, ties)
        if new_edition:
            number = fold.state.edition(page.board.name, window.window.id) - 1
            kept = ranking.added(number) if before is None else ranking.replaced(number)
            begun.opened[kept] = window.terms.shape
            no_key = bytes(window.terms.shape.key_bytes)
            begun.put((kept, player), *(before or (no_key, None)))


async def _segments_of(
    fold: Fold,
    begun: MoveBatch,
    page: BoardState,
    window: OpenedWindow | SealedWindow,
    player: str,
    *,
    entered: bool,
) -> list[Ranking]:
    """Return the segments of a window that a player is in; in a closed one, was in at its close.

    ``entered`` if it has an entry in the window. Otherwise its own facts tell its attributes then.
    """
    board, id, _ = msgspec.structs.astuple(window.ranking)
    if not isinstance(window, SealedWindow):
        return [Ranking(board, id, segment) for segment in fold.state.segments(page, player)]
    terms = window.terms.board
    if not terms.segments:
        return []
    if not entered:
        erased = fold.state.erased
        attributes = await attributes_at(fold.ledger, player, window.through, erased)
        return [Ranking(board, id, segment) for segment in segments_of(terms, attributes)]
    every = [ranking for ranking in await _seen(fold, page) if ranking.window == window.window.id]
    segments = [ranking for ranking in every if ranking.segment is not None]
    there = await _holding(fold, begun, [fold.home(one, player) for one in segments], player)
    return [one for one in segments if fold.home(one, player) in there]


async def attributes_at(
    ledger: LedgerReader, player: str, before: Position, erased: Mapping[str, Position]
) -> Attributes:
    """Return the attributes that a player had before a position. O(facts of the player)."""
    attributes: Attributes = {}
    after = Position(0)
    while True:
        facts = await ledger.facts_of(
            board=None,
            player=player,
            after=after,
            before=before,
            limit=FACTS_TOGETHER,
            newest_first=False,
        )
        for recorded in as_erased(facts, erased):
            change = recorded.fact.profile_change()
            if change is not None:
                attributes = change.attributes_after(attributes)
        if len(facts) < FACTS_TOGETHER:
            return attributes
        after = facts[-1].position


async def _seen(fold: Fold, page: BoardState) -> list[Ranking]:
    """Return the rankings of a board, with and without readable entries, by readable name."""
    every = await fold.index.rankings(page.board.name)
    seen = (ranking if ranking.readable else ranking.seen for ranking in every)
    return list(dict.fromkeys(ranking for ranking in seen if ranking is not None))


async def _holding(
    fold: Fold, begun: MoveBatch, rankings: Sequence[Ranking], player: str
) -> dict[Ranking, bytes]:
    """Return those of the rankings that a player has an entry in, with its order key."""
    found: dict[Ranking, bytes] = {}
    for start in range(0, len(rankings), PLACES_TOGETHER):
        some = rankings[start : start + PLACES_TOGETHER]
        places = [(ranking, player) for ranking in some]
        keys = await fold.index.order_keys(places, at=begun.at)
        found |= {one: key for one, key in zip(some, keys, strict=True) if key is not None}
    return found


# ----------------------------------------------------------------------------- handlers


async def _retract(fold: Fold, begun: MoveBatch, fact: ScoresRetracted, recorded: Recorded) -> None:
    beside = fact.is_broad and await fold.retract_beside(begun, recorded)
    fold.note(recorded)
    if beside:
        return
    selected = await selected_players(fold.ledger, fact, before=recorded.position)
    await _refold(fold, begun, selected, recorded, fact.editions)


async def _undo_retraction(
    fold: Fold, begun: MoveBatch, fact: RetractionUndone, recorded: Recorded
) -> None:
    known = fold.state.retractions.get(fact.retraction)
    if known is None or not known.in_force:
        fold.note(recorded)
        return
    beside = known.fact.is_broad and await fold.retract_beside(begun, recorded)
    fold.note(recorded)
    if beside:
        return
    selected = await selected_players(fold.ledger, known.fact, before=known.position)
    await _refold(fold, begun, selected, recorded, fact.editions)


async def _decide_review(
    fold: Fold, begun: MoveBatch, fact: ReviewDecided, recorded: Recorded
) -> None:
    reviews = fold.state.reviews
    was_open, was_held = reviews.is_open(fact.submission), fact.submission in reviews.held
    fold.note(recorded)
    if was_open and fact.approved is was_held:
        selected = {(fact.board, fact.player): None}
        await _refold(fold, begun, selected, recorded, fact.editions)


async def _refold(
    fold: Fold,
    begun: MoveBatch,
    selected: dict[BoardPlayer, None],
    recorded: Recorded,
    editions: Sequence[Edition],
) -> None:
    for board, player in selected:
        page = fold.state.boards.get(board)
        if page is not None:
            await refold_player(
                fold, begun, page, player, through=recorded.position, editions=editions
            )


async def _set_player_state(
    fold: Fold, begun: MoveBatch, fact: PlayerStateSet, recorded: Recorded
) -> None:
    """Move a player's entries on every board to where its new state has them."""
    player, pages = fact.player, list(fold.state.boards.values())
    before = {page.board.name: _is_unseen(fold, page, player) for page in pages}
    fold.note(recorded)
    for page in pages:
        unseen = _is_unseen(fold, page, player)
        if unseen == before[page.board.name]:
            continue
        shapes = {one.ranking.window: one.terms.shape for one in page.counting}
        shapes |= {one.ranking.window: one.terms.shape for one in page.sealed.values()}
        seen = [ranking for ranking in await _seen(fold, page) if ranking.window in shapes]
        targets = {one if unseen else one.unseen: one.unseen if unseen else one for one in seen}
        for source, order_key in (await _holding(fold, begun, list(targets), player)).items():
            target = targets[source]
            (metadata,) = await fold.index.metadata([(source, player)], at=begun.at)
            begun.opened[target] = shapes[target.window]
            begun.put((target, player), order_key, metadata)
            begun.put((source, player), None)


def _is_unseen(fold: Fold, page: BoardState, player: str) -> bool:
    return fold.state.player_state(player, page.board.name) is not None


async def _erase(fold: Fold, begun: MoveBatch, fact: PersonErased, recorded: Recorded) -> None:
    """Take a player out of all segments, and the metadata from its entries in all windows.

    Closed ones and their editions as well: from the facts as they are redacted follows no more.
    """
    for page in fold.state.boards.values():
        every = await fold.index.rankings(page.board.name)
        for ranking, order_key in (await _holding(fold, begun, every, fact.player)).items():
            place = (ranking, fact.player)
            if not ranking.of_all:
                begun.put(place, None)
            elif (await fold.index.metadata([place], at=begun.at))[0] is not None:
                begun.put(place, order_key)
    fold.note(recorded)


async def _expire(fold: Fold, begun: MoveBatch, fact: ScoresExpired, recorded: Recorded) -> None:
    """Fold a player again without the submissions whose term is over."""
    ending = any(position in fold.state.living for position in fact.positions)
    fold.note(recorded)
    page = fold.state.boards.get(fact.board)
    if ending and page is not None:
        await refold_player(fold, begun, page, fact.player, through=recorded.position, editions=())


async def _set_metadata(
    fold: Fold, begun: MoveBatch, fact: MetadataSet, recorded: Recorded
) -> None:
    """Put other metadata beside a player's entries in the open windows."""
    for opened in fold.open_windows(fact.board):
        page = fold.state.boards[fact.board]
        before = await fold.entry(begun, fold.home(opened.ranking, fact.player), fact.player)
        if before is not None:
            after = (before[0], fact.metadata)
            await _replace(fold, begun, page, opened, fact.player, after, new_edition=False)
    fold.note(recorded)


register_fold(ScoresRetracted, fold=_retract, barrier=True)
register_fold(RetractionUndone, fold=_undo_retraction, barrier=True)
register_fold(ReviewDecided, fold=_decide_review, barrier=True)
register_fold(PlayerStateSet, fold=_set_player_state, barrier=True)
register_fold(PersonErased, fold=_erase, barrier=True)
register_fold(ScoresExpired, fold=_expire, barrier=True)
register_fold(MetadataSet, fold=_set_metadata)
