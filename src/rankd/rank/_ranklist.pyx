# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=False
# distutils: language = c
"""The shell around the native rank list: it turns Python's objects into C's and back.

Nothing is decided here. The algorithms are in the .c files beside this one, which know no Python;
the meaning is in oracle.py, which says the same in Python and is what the tests compare with.
Every call holds the interpreter's lock from start to end, so calls never interleave.
"""

from array import array
from os import urandom

from cpython.array cimport array as column, clone
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stddef cimport size_t
from libc.string cimport memcpy, memset


cdef extern from "memory.h" nogil:
    ctypedef enum rk_status:
        RK_OK
        RK_NO_MEMORY
        RK_PRESENT
        RK_ABSENT
        RK_FULL
        RK_UNORDERED
    size_t rk_bytes_in_use()
    uint64_t rk_allocations()
    void rk_fail_allocation(uint64_t k)

cdef extern from "players.h" nogil:
    uint32_t RK_NOBODY
    uint32_t RK_ID_BYTES_MAX
    ctypedef struct rk_players:
        uint32_t issued
    void rk_players_init(rk_players *players, uint64_t seed)
    void rk_players_clear(rk_players *players)
    uint64_t rk_players_count(const rk_players *players)
    uint32_t rk_players_find(const rk_players *players, const char *id, size_t length)
    rk_status rk_players_intern(rk_players *players, const char *id, size_t length,
                                uint32_t *number)
    void rk_players_find_many(const rk_players *players, uint64_t count, const char **ids,
                              const uint32_t *lengths, uint32_t *numbers)
    rk_status rk_players_intern_many(rk_players *players, uint64_t count, const char **ids,
                                     const uint32_t *lengths, uint32_t *numbers)
    void rk_players_expect(rk_players *players, uint64_t count)
    bint rk_players_has(const rk_players *players, uint32_t number)
    const char *rk_players_id(const rk_players *players, uint32_t number, size_t *length)
    void rk_players_warm(const rk_players *players, uint64_t count, const uint32_t *numbers)
    rk_status rk_players_remove(rk_players *players, uint32_t number)
    size_t rk_players_bytes(const rk_players *players)
    int rk_players_check(const rk_players *players)

cdef extern from "ranklist.h" nogil:
    uint32_t RK_KEY_BYTES_MAX
    uint32_t RK_LIST_WORDS_MIN
    ctypedef struct rk_key:
        uint64_t word[5]
    ctypedef struct rk_tree:
        uint64_t count
        uint32_t words
    ctypedef struct rk_list:
        rk_tree tree
        bint dense
    ctypedef struct rk_move:
        uint64_t previous_rank
        uint64_t rank
    ctypedef struct rk_loader:
        pass
    void rk_key_read(rk_key *key, const uint8_t *bytes, uint32_t words)
    void rk_key_write(const rk_key *key, uint8_t *bytes, uint32_t words)
    uint64_t rk_tree_read(const rk_tree *tree, uint64_t offset, uint64_t count, uint8_t *keys,
                          uint32_t *players)
    void rk_loader_init(rk_loader *loader, rk_tree *tree)
    void rk_list_init(rk_list *list, uint32_t words, bint dense, const rk_players *players)
    void rk_list_clear(rk_list *list)
    rk_status rk_list_put(rk_list *list, uint32_t player, const rk_key *key, rk_move *move)
    rk_status rk_list_remove(rk_list *list, uint32_t player, uint64_t *previous_rank)
    bint rk_list_key(const rk_list *list, uint32_t player, rk_key *key)
    uint64_t rk_list_rank(const rk_list *list, uint32_t player)
    uint64_t rk_list_find(const rk_list *list, uint32_t player, rk_key *key)
    uint64_t rk_list_below(const rk_list *list, const rk_key *key)
    uint64_t rk_list_scores_below(const rk_list *list, const rk_key *key)
    uint64_t rk_list_put_many(rk_list *list, uint64_t count, const uint32_t *players,
                              const uint8_t *keys, uint32_t *previous, uint32_t *ranks,
                              rk_status *status)
    void rk_list_rank_many(const rk_list *list, uint64_t count, const uint32_t *players,
                           uint32_t *ranks)
    void rk_list_find_many(const rk_list *list, uint64_t count, const uint32_t *players,
                           uint32_t *ranks, uint8_t *keys)
    rk_status rk_list_load(rk_list *list, rk_loader *loader, uint64_t count,
                           const uint32_t *players, const uint8_t *keys)
    void rk_list_expect(rk_list *list, uint64_t count)
    rk_status rk_list_load_finish(rk_list *list, rk_loader *loader)
    size_t rk_list_bytes(const rk_list *list)
    const char *rk_list_check(const rk_list *list)

cdef extern from "lookup.h" nogil:
    uint64_t rk_lookup_hash(uint64_t seed, const uint8_t *id, size_t length)
    void rk_lookup_fill(uint32_t *slots, uint64_t slot_count, uint32_t row_bits, uint64_t seed,
                        uint32_t first_row, uint64_t count, const uint8_t *text,
                        const uint16_t *lengths)

cdef extern from "judge.h" nogil:
    ctypedef enum rk_rule:
        RK_BEST
        RK_LATEST
        RK_SUM
        RK_FIRST
    ctypedef enum rk_verdict:
        RK_HELD
        RK_REFUSED
    ctypedef enum rk_ties:
        RK_ORDINAL
        RK_STANDARD
        RK_DENSE
    ctypedef struct rk_rules:
        rk_rule rule
        int64_t low
        int64_t high
        uint64_t mask[5]
        uint64_t tie_factor
        rk_ties ties
    ctypedef struct rk_run:
        const uint32_t *players
        const int64_t *scores
        const uint8_t *deltas
        const uint64_t *positions
        const uint8_t *barred
    ctypedef struct rk_outcomes:
        uint8_t *verdicts
        int64_t *scores
        int64_t *previous_scores
        uint32_t *ranks
        uint32_t *previous_ranks
        uint32_t *totals
    uint64_t rk_judge_many(rk_list *list, const rk_rules *rules, uint64_t count,
                           const rk_run *run, const rk_outcomes *outcomes, rk_status *status)


NO_PLAYER = RK_NOBODY
ID_BYTES_MAX = RK_ID_BYTES_MAX

cdef column _NUMBERS = array("I")
cdef column _LENGTHS = array("H")
cdef column _SCORES = array("q")
assert _NUMBERS.itemsize == 4 and _SCORES.itemsize == 8


def fail_allocation(k):
    """Let the k-th allocation from now fail, and no other; 0 lets none fail. For tests."""
    rk_fail_allocation(k)


def allocations():
    """How many allocations there have been. For tests."""
    return rk_allocations()


def bytes_in_use():
    """Bytes that all lists and tables of this process hold. For tests."""
    return rk_bytes_in_use()


cdef column _numbers(Py_ssize_t count):
    return clone(_NUMBERS, count, zero=count > 0)  # An empty array has nothing to clear.


cdef column _scores(Py_ssize_t count):
    return clone(_SCORES, count, zero=count > 0)


cdef int _raise(rk_status status, str what) except -1:
    if status == RK_NO_MEMORY:
        raise MemoryError(f"no memory {what}")
    if status == RK_FULL:
        raise OverflowError("all player numbers are taken")
    raise AssertionError(f"unexpected status {<int>status} {what}")


# ---- Lookup tables -----------------------------------------------------------------------------

def lookup_hash(uint64_t seed, const uint8_t[::1] id not None):
    return rk_lookup_hash(seed, &id[0] if id.shape[0] else NULL, id.shape[0])


def fill_lookup(uint32_t[::1] slots not None, uint32_t row_bits, uint64_t seed, first_row,
                const uint8_t[::1] text not None, const uint16_t[::1] lengths not None):
    cdef Py_ssize_t i, total = 0, count = lengths.shape[0]
    for i in range(count):
        total += lengths[i]
    if total != text.shape[0]:
        raise ValueError(f"the lengths add up to {total}, the text has {text.shape[0]} bytes")
    if not 1 <= row_bits <= 32 or not 0 <= first_row <= first_row + count < 1 << row_bits:
        raise ValueError(f"{count} rows from {first_row} on do not fit in {row_bits} bits")
    if first_row + count >= slots.shape[0]:
        raise ValueError("each id needs a slot, and one stays empty")
    if count:
        rk_lookup_fill(&slots[0], slots.shape[0], row_bits, seed, first_row, count, &text[0],
                       &lengths[0])


# ---- Player table ------------------------------------------------------------------------------

cdef const char *_id_bytes(object id, size_t *length) except NULL:
    cdef Py_ssize_t size
    cdef const char *text = PyUnicode_AsUTF8AndSize(id, &size)
    if size == 0 or size > RK_ID_BYTES_MAX:
        raise ValueError(f"a player id has 1 to {RK_ID_BYTES_MAX} bytes of UTF-8, not {size}")
    length[0] = size
    return text


cdef class PlayerTable:
    cdef rk_players _players

    def __cinit__(self, seed=None):
        if seed is None:
            seed = int.from_bytes(urandom(8), "little")
        rk_players_init(&self._players, seed & 0xFFFFFFFFFFFFFFFF)

    def __dealloc__(self):
        rk_players_clear(&self._players)

    def __len__(self):
        return rk_players_count(&self._players)

    def __contains__(self, number):
        return 0 <= number < RK_NOBODY and rk_players_has(&self._players, number)

    def intern(self, id):
        cdef size_t length
        cdef const char *text = _id_bytes(id, &length)
        cdef uint32_t number
        cdef rk_status status = rk_players_intern(&self._players, text, length, &number)
        if status != RK_OK:
            _raise(status, "for a new player")
        return number

    def find(self, id):
        cdef size_t length
        cdef const char *text = _id_bytes(id, &length)
        cdef uint32_t number = rk_players_find(&self._players, text, length)
        return None if number == RK_NOBODY else number

    def intern_many(self, ids):
        return self._many(ids, True)

    def find_many(self, ids):
        return self._many(ids, False)

    cdef object _many(self, object ids, bint add):
        cdef list items = ids if type(ids) is list else list(ids)
        cdef Py_ssize_t count = len(items), done = 0, group, i
        cdef const char *texts[64]
        cdef uint32_t lengths[64]
        cdef size_t length
        cdef rk_status status
        result = _numbers(count)
        if count == 0:
            return result
        cdef uint32_t[::1] numbers = result
        while done < count:
            group = min(count - done, 64)
            for i in range(group):
                texts[i] = _id_bytes(items[done + i], &length)
                lengths[i] = <uint32_t>length
            if add:
                status = rk_players_intern_many(&self._players, group, texts, lengths,
                                                &numbers[done])
                if status != RK_OK:
                    _raise(status, "for new players")
            else:
                rk_players_find_many(&self._players, group, texts, lengths, &numbers[done])
            done += group
        return result

    def expect(self, uint64_t count):
        rk_players_expect(&self._players, count)

    def intern_packed(self, const uint8_t[::1] text not None, const uint16_t[::1] lengths not None):
        cdef Py_ssize_t count = lengths.shape[0], done = 0, group, i, at = 0, total = 0
        cdef const char *texts[64]
        cdef uint32_t sizes[64]
        cdef rk_status status
        for i in range(count):
            total += lengths[i]
            if lengths[i] == 0 or lengths[i] > RK_ID_BYTES_MAX:
                raise ValueError(f"a player id has 1 to {RK_ID_BYTES_MAX} bytes of UTF-8, "
                                 f"not {lengths[i]}")
        if total != text.shape[0]:
            raise ValueError(f"the lengths add up to {total}, the text has {text.shape[0]} bytes")
        _check_packed_utf8(text, lengths)
        result = _numbers(count)
        if count == 0:
            return result
        cdef uint32_t[::1] numbers = result
        while done < count:
            group = min(count - done, 64)
            for i in range(group):
                texts[i] = <const char *>&text[at]
                sizes[i] = lengths[done + i]
                at += lengths[done + i]
            status = rk_players_intern_many(&self._players, group, texts, sizes, &numbers[done])
            if status != RK_OK:
                _raise(status, "for new players")
            done += group
        return result

    def id_of(self, number):
        if number not in self:
            raise KeyError(number)
        cdef size_t length
        cdef const char *text = rk_players_id(&self._players, number, &length)
        return PyUnicode_DecodeUTF8(text, length, NULL)

    def ids_of(self, const uint32_t[::1] numbers not None):
        cdef size_t length
        cdef const char *text
        cdef Py_ssize_t i, warm = 0
        cdef list ids = []
        for i in range(numbers.shape[0]):
            if i == warm:  # Memory is the bottleneck: the next ones wait for it together.
                warm = min(i + 64, numbers.shape[0])
                rk_players_warm(&self._players, warm - i, &numbers[i])
            if not rk_players_has(&self._players, numbers[i]):
                raise KeyError(numbers[i])
            text = rk_players_id(&self._players, numbers[i], &length)
            ids.append(PyUnicode_DecodeUTF8(text, length, NULL))
        return ids

    def pack_ids(self, const uint32_t[::1] numbers not None):
        cdef size_t length, total = 0
        cdef const char *text
        cdef Py_ssize_t i, warm = 0, count = numbers.shape[0]
        cdef column sizes = clone(_LENGTHS, count, zero=False)
        for i in range(count):
            if i == warm:
                warm = min(i + 64, count)
                rk_players_warm(&self._players, warm - i, &numbers[i])
            if not rk_players_has(&self._players, numbers[i]):
                raise KeyError(numbers[i])
            rk_players_id(&self._players, numbers[i], &length)
            sizes.data.as_ushorts[i] = <uint16_t>length
            total += length
        packed = PyBytes_FromStringAndSize(NULL, total)
        cdef char *into = PyBytes_AS_STRING(packed)
        for i in range(count):
            text = rk_players_id(&self._players, numbers[i], &length)
            memcpy(into, text, length)
            into += length
        return packed, sizes

    def remove(self, number):
        if number not in self:
            raise KeyError(number)
        rk_players_remove(&self._players, number)

    def blocks(self, size=4096):
        if size < 1:
            raise ValueError("a block holds at least one player")
        return self._blocks(size)

    def _blocks(self, size):
        cdef uint32_t number = 0
        cdef size_t length
        cdef const char *text
        while number < self._players.issued:
            numbers, lengths, texts = array("I"), array("H"), []
            while number < self._players.issued and len(texts) < size:
                if rk_players_has(&self._players, number):
                    text = rk_players_id(&self._players, number, &length)
                    numbers.append(number)
                    lengths.append(length)
                    texts.append(text[:length])
                number += 1
            yield numbers, lengths, b"".join(texts)

    @property
    def bytes_used(self):
        return rk_players_bytes(&self._players)

    def check(self):
        cdef int broken = rk_players_check(&self._players)
        assert broken == 0, f"invariant (P{broken}) of players.h does not hold"


cdef int _check_packed_utf8(const uint8_t[::1] text, const uint16_t[::1] lengths) except -1:
    """Each id must be UTF-8 by itself: all of it, and cut where a character begins."""
    cdef Py_ssize_t i, at = 0
    if text.shape[0] == 0:
        return 0
    PyUnicode_DecodeUTF8(<const char *>&text[0], text.shape[0], NULL)
    for i in range(lengths.shape[0]):
        if text[at] & 0xC0 == 0x80:
            raise ValueError("an id begins in the middle of a character")
        at += lengths[i]
    return 0


# ---- Rank list ---------------------------------------------------------------------------------

cdef class RankList:
    cdef rk_list _list
    cdef rk_loader _loader
    cdef readonly object players
    cdef readonly int width
    cdef uint64_t _changes

    def __cinit__(self, width=16, *, PlayerTable players=None, dense=False):
        if width % 8 or not 8 * RK_LIST_WORDS_MIN <= width <= RK_KEY_BYTES_MAX:
            raise ValueError(f"a key has 16, 24, 32, 40 or 48 bytes, not {width}")
        self.width = width
        self.players = players
        rk_list_init(&self._list, width // 8, dense, NULL if players is None else &players._players)

    def __dealloc__(self):
        if self.width:  # Otherwise it was refused before there was anything to clear.
            rk_list_clear(&self._list)

    def __len__(self):
        return self._list.tree.count

    def __contains__(self, player):
        cdef rk_key key
        return 0 <= player < RK_NOBODY and rk_list_key(&self._list, player, &key)

    @property
    def dense(self):
        return bool(self._list.dense)

    cdef int _key(self, object key, rk_key *into) except -1:
        if type(key) is not bytes or len(key) != self.width:
            raise ValueError(f"keys of this list are {self.width} bytes")
        rk_key_read(into, <const uint8_t *>PyBytes_AS_STRING(key), self._list.tree.words)
        return 0

    cdef uint32_t _number(self, object player) except? 0:
        if not 0 <= player < RK_NOBODY:
            raise ValueError("a player's number is 0 to 4294967294")
        return player

    # -- one at a time --

    def put(self, player, key):
        cdef rk_key words
        cdef rk_move move
        cdef uint32_t number = self._number(player)
        self._key(key, &words)
        cdef rk_status status = rk_list_put(&self._list, number, &words, &move)
        if status == RK_ABSENT:
            raise KeyError(player)
        if status != RK_OK:
            _raise(status, "for an entry")
        self._changes += 1
        return (move.previous_rank or None, move.rank)

    def remove(self, player):
        cdef uint64_t previous_rank
        if rk_list_remove(&self._list, self._number(player), &previous_rank) != RK_OK:
            raise KeyError(player)
        self._changes += 1
        return previous_rank

    def key_of(self, player):
        cdef rk_key key
        if not rk_list_key(&self._list, self._number(player), &key):
            return None
        result = PyBytes_FromStringAndSize(NULL, self.width)
        rk_key_write(&key, <uint8_t *>PyBytes_AS_STRING(result), self._list.tree.words)
        return result

    def rank_of(self, player):
        return rk_list_rank(&self._list, self._number(player)) or None

    def locate(self, id):
        if self.players is None:
            raise ValueError("this list does not know its players by their ids")
        cdef size_t length
        cdef const char *text = _id_bytes(id, &length)
        cdef PlayerTable players = self.players
        cdef uint32_t number = rk_players_find(&players._players, text, length)
        if number == RK_NOBODY:
            return None
        cdef rk_key key
        cdef uint64_t rank = rk_list_find(&self._list, number, &key)
        if rank == 0:
            return None
        result = PyBytes_FromStringAndSize(NULL, self.width)
        rk_key_write(&key, <uint8_t *>PyBytes_AS_STRING(result), self._list.tree.words)
        return rank, result, number

    def count_below(self, key):
        cdef rk_key words
        self._key(key, &words)
        return rk_list_below(&self._list, &words)

    def scores_below(self, key):
        cdef rk_key words
        self._key(key, &words)
        if not self._list.dense:
            raise ValueError("this list does not count distinct scores: make it with dense=True")
        return rk_list_scores_below(&self._list, &words)

    # -- many at once --

    def read(self, first_rank, count):
        if first_rank < 1 or count < 0:
            raise ValueError("ranks count from 1")
        cdef uint64_t total = self._list.tree.count
        cdef uint64_t offset = min(first_rank - 1, total)
        cdef uint64_t wanted = min(count, total - offset)
        players = _numbers(wanted)
        if wanted == 0:
            return b"", players
        cdef uint32_t[::1] numbers = players
        keys = PyBytes_FromStringAndSize(NULL, wanted * self.width)
        rk_tree_read(&self._list.tree, offset, wanted, <uint8_t *>PyBytes_AS_STRING(keys),
                     &numbers[0])
        return keys, players

    def __iter__(self):
        for keys, players in self.blocks():
            for i, player in enumerate(players):
                yield keys[i * self.width:(i + 1) * self.width], player

    def blocks(self, size=4096):
        if size < 1:
            raise ValueError("a block holds at least one entry")
        return self._blocks(size)

    def _blocks(self, size):
        cdef uint64_t changes = self._changes
        for first_rank in range(1, len(self) + 1, size):
            if self._changes != changes:
                raise RuntimeError("the list changed while it was being read")
            yield self.read(first_rank, size)

    def put_many(self, const uint32_t[::1] players not None, const uint8_t[::1] keys not None,
                 *, ranks=False):
        cdef Py_ssize_t count = players.shape[0]
        if keys.shape[0] != count * self.width:
            raise ValueError(f"{count} players need {count * self.width} bytes of keys, "
                             f"not {keys.shape[0]}")
        cdef uint32_t[::1] before, after
        cdef uint32_t *previous = NULL
        cdef uint32_t *new = NULL
        cdef rk_status status
        previous_ranks = new_ranks = None
        if ranks:
            previous_ranks, new_ranks = _numbers(count), _numbers(count)
        if count == 0:
            return (previous_ranks, new_ranks) if ranks else None
        if ranks:
            before, after = previous_ranks, new_ranks
            previous, new = &before[0], &after[0]
        self._changes += 1
        cdef uint64_t done = rk_list_put_many(&self._list, count, &players[0], &keys[0],
                                              previous, new, &status)
        if done < <uint64_t>count:
            self._stopped(status, done, players[done])
        return (previous_ranks, new_ranks) if ranks else None

    def judge_many(self, const uint32_t[::1] players not None, const int64_t[::1] scores not None,
                   const uint64_t[::1] positions not None, const uint8_t[::1] deltas=None,
                   const uint8_t[::1] barred=None, *, rules):
        cdef Py_ssize_t count = players.shape[0], columns = self._list.tree.words - 1
        cdef rk_rules by
        cdef rk_run run
        cdef rk_outcomes into
        cdef rk_status status
        self._read_rules(rules, &by)
        if scores.shape[0] != count * columns or positions.shape[0] != count:
            raise ValueError(f"{count} players need {columns} scores and a position each")
        if deltas is not None and deltas.shape[0] != count:
            raise ValueError(f"{count} players need a mark each that says whether it is a delta")
        if barred is not None:
            if barred.shape[0] != count:
                raise ValueError(f"{count} players need a mark each that says whether it is barred")
            if any(mark not in (0, RK_HELD, RK_REFUSED) for mark in barred):
                raise ValueError("a submission is held, refused or not barred")
        if by.rule == RK_FIRST and deltas is not None and any(deltas):
            raise ValueError("where the first scores stay there are no deltas")
        verdicts = PyBytes_FromStringAndSize(NULL, count)
        cdef column scores_after = _scores(count * columns)
        cdef column scores_before = _scores(count * columns)
        cdef column after = _numbers(count), before = _numbers(count), totals = _numbers(count)
        told = (verdicts, scores_after, scores_before, after, before, totals)
        if count == 0:
            return told
        run.players, run.scores, run.positions = &players[0], &scores[0], &positions[0]
        run.deltas = run.barred = NULL
        if deltas is not None:
            run.deltas = &deltas[0]
        if barred is not None:
            run.barred = &barred[0]
        into.verdicts = <uint8_t *>PyBytes_AS_STRING(verdicts)
        into.scores = <int64_t *>scores_after.data.as_longlongs
        into.previous_scores = <int64_t *>scores_before.data.as_longlongs
        into.ranks, into.previous_ranks = after.data.as_uints, before.data.as_uints
        into.totals = totals.data.as_uints
        self._changes += 1
        cdef uint64_t done = rk_judge_many(&self._list, &by, count, &run, &into, &status)
        if done < <uint64_t>count:
            self._stopped(status, done, players[done])
        return told

    cdef int _read_rules(self, object rules, rk_rules *into) except -1:
        cdef uint32_t i
        rule, masks, tie_factor, low, high, ties = rules
        if rule not in (RK_BEST, RK_LATEST, RK_SUM, RK_FIRST):
            raise ValueError(f"there is no rule {rule}")
        if len(masks) != self._list.tree.words:
            raise ValueError(f"keys of this list need {self._list.tree.words} masks")
        if tie_factor not in (0, 1):
            raise ValueError("positions order equal scores or do not: 1 or 0")
        if ties not in (RK_ORDINAL, RK_STANDARD, RK_DENSE):
            raise ValueError(f"there are no ties {ties}")
        if ties == RK_DENSE and not self._list.dense:
            raise ValueError("this list does not count distinct scores: make it with dense=True")
        into.rule, into.tie_factor, into.low, into.high = rule, tie_factor, low, high
        into.ties = ties
        for i in range(self._list.tree.words):
            into.mask[i] = masks[i]
        return 0

    cdef int _stopped(self, rk_status status, uint64_t done, uint32_t player) except -1:
        if player == RK_NOBODY:
            error = ValueError("a player's number is 0 to 4294967294")
        elif status == RK_ABSENT:
            error = KeyError(player)
        else:
            error = MemoryError(f"no memory after {done} entries of the batch")
        error.add_note(f"{done} entries of the batch were put")
        raise error

    def rank_many(self, const uint32_t[::1] players not None):
        result = _numbers(players.shape[0])
        cdef uint32_t[::1] ranks = result if players.shape[0] else None
        if players.shape[0]:
            rk_list_rank_many(&self._list, players.shape[0], &players[0], &ranks[0])
        return result

    def find_many(self, const uint32_t[::1] players not None):
        cdef Py_ssize_t count = players.shape[0]
        numbers = _numbers(count)
        if count == 0:
            return numbers, b""
        cdef uint32_t[::1] ranks = numbers
        keys = PyBytes_FromStringAndSize(NULL, count * self.width)
        rk_list_find_many(&self._list, count, &players[0], &ranks[0],
                          <uint8_t *>PyBytes_AS_STRING(keys))
        return numbers, keys

    def load(self, blocks, *, uint64_t expected=0):
        # Into a list of its own: where the blocks come from may use this one meanwhile.
        cdef RankList fresh = RankList(self.width, players=self.players, dense=self.dense)
        rk_loader_init(&fresh._loader, &fresh._list.tree)
        rk_list_expect(&fresh._list, expected)
        for keys, players in blocks:
            fresh._append(keys, players)
        cdef rk_status status = rk_list_load_finish(&fresh._list, &fresh._loader)
        if status != RK_OK:
            _raise(status, "for a bulk load")
        if self._list.tree.count:
            raise ValueError("only an empty list can be loaded")
        cdef rk_list emptied = self._list
        self._list = fresh._list
        fresh._list = emptied
        self._changes += 1

    cdef int _append(self, const uint8_t[::1] keys, const uint32_t[::1] players) except -1:
        if keys.shape[0] != players.shape[0] * self.width:
            raise ValueError(f"{players.shape[0]} players need {players.shape[0] * self.width} "
                             f"bytes of keys, not {keys.shape[0]}")
        if players.shape[0] == 0:
            return 0
        cdef rk_status status = rk_list_load(&self._list, &self._loader, players.shape[0],
                                             &players[0], &keys[0])
        if status == RK_UNORDERED:
            raise ValueError("the entries of a bulk load must increase")
        if status == RK_PRESENT:
            raise ValueError("a player comes twice")
        if status == RK_ABSENT:
            raise ValueError("a player is not in the player table")
        if status != RK_OK:
            _raise(status, "for a bulk load")
        return 0

    @property
    def changes(self):
        return self._changes

    @property
    def bytes_used(self):
        return rk_list_bytes(&self._list)

    def check(self):
        cdef const char *broken = rk_list_check(&self._list)
        assert broken == NULL, f"invariant {broken.decode()} of the rank list does not hold"
