"""Earlier editions of closed windows: their standings before corrections changed them.

Beside a closed window the index keeps, for each edition, the entries that the next one changed
(``Ranking.replaced``) and the players that it added (``Ranking.added``). So an edition is the
present ranking with these changes taken back, the oldest last: an overlay.
"""

from rankd.core.overlay import EntryChange, Overlay
from rankd.core.reader import RankingView, Reader
from rankd.core.state import State
from rankd.errors import FieldError, InvalidPage
from rankd.model.standing import Rank
from rankd.ports import Placed, RankIndex, Ranking

EDITION_CHANGES_MAX = 100_000
"""Changed entries of one read of an edition: some hundred bytes each, for as long as it takes."""

ENTRIES_TOGETHER = 10_000

Entries = dict[str, Placed | None]
"""By player its entry; None for a player without one."""


def check_edition(state: State, where: RankingView, edition: int) -> None:
    """Raise InvalidPage unless a window has had this edition, or has it now."""
    ranking = where.ranking
    present = state.edition(ranking.board, ranking.window)
    if not 1 <= edition <= present:
        message = f"must be from 1 to {present}, the present one of {ranking.window}"
        raise InvalidPage([FieldError("edition", message)])


async def edition_reader(reader: Reader, where: RankingView, edition: int) -> Reader:
    """Return a reader of a ranking as it was in an edition. Raises InvalidPage."""
    state, ranking = reader.projector.state, where.ranking
    check_edition(state, where, edition)
    index = reader.projector.readable
    then: Entries = {}
    for number in range(edition, state.edition(ranking.board, ranking.window)):
        for player, entry in (await _taken_back(index, ranking, number)).items():
            then.setdefault(player, entry)
        if len(then) > EDITION_CHANGES_MAX:
            message = f"has more than {EDITION_CHANGES_MAX:,} changed entries since"
            raise InvalidPage([FieldError("edition", message)])
    for player in [one for one in then if state.player_state(one, ranking.board) is not None]:
        del then[player]  # It is in no ranking that is shown.
    if not then:
        return reader
    now = await _entries(index, ranking, list(then))
    changes = {player: EntryChange(now[player], then[player]) for player in then}
    return reader.over(Overlay(index, ranking, changes))


async def _taken_back(index: RankIndex, ranking: Ranking, edition: int) -> Entries:
    """Return the entries of an edition that the next one changed."""
    found: Entries = {}
    for part in (ranking.replaced(edition), ranking.added(edition)):
        first = Rank(1)
        while len(found) <= EDITION_CHANGES_MAX:
            some = (await index.read(part, first=first, limit=ENTRIES_TOGETHER)).entries
            added = part != ranking.replaced(edition)
            found |= {entry.player: None if added else entry for entry in some}
            if len(some) < ENTRIES_TOGETHER:
                break
            first = Rank(first + len(some))
    return found


async def _entries(index: RankIndex, ranking: Ranking, players: list[str]) -> Entries:
    """Return the present entries of players."""
    found: Entries = {}
    for start in range(0, len(players), ENTRIES_TOGETHER):
        places = [(ranking, player) for player in players[start : start + ENTRIES_TOGETHER]]
        keys = await index.order_keys(places)
        metadata = await index.metadata(places)
        for (_, player), key, beside in zip(places, keys, metadata, strict=True):
            found[player] = None if key is None else Placed(player, key, beside)
    return found
