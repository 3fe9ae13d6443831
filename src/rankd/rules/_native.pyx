# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=False
# distutils: language = c
"""The shell around the native rules: it turns Python's objects into C's and back.

The rules are judged in rules.c, which knows no Python; oracle.py is the same in Python, and the
reference in tests. Every call holds the interpreter's lock from start to end.
"""

from os import urandom

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from rankd.rules.conditions import (
    COUNTED,
    ID_BYTES_MAX,
    KINDS,
    ROW_RULES_MAX,
    SCORE_RULES,
    SEEN,
    UNBOUNDED,
    VALUED,
    Field,
    layout_of,
    read_conditions,
)
from rankd.rules.state_format import BUCKETS, seal, unseal


cdef extern from "../rank/memory.h" nogil:
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

cdef extern from "../rank/players.h" nogil:
    uint32_t RK_ID_BYTES_MAX
    ctypedef struct rk_players:
        uint32_t issued
    const char *rk_players_id(const rk_players *players, uint32_t number, size_t *length)

cdef extern from "rules.h" nogil:
    uint32_t RL_RULES_MAX, RL_BUCKETS
    uint32_t RL_FLAGS, RL_TIME, RL_VALUE, RL_GAINS, RL_COUNTS, RL_USUAL, RL_HISTOGRAM
    uint32_t RL_SEEN, RL_COUNTED, RL_VALUED
    ctypedef enum rl_name:
        pass
    ctypedef enum rl_score_rule:
        pass
    ctypedef enum rl_verdict:
        pass
    ctypedef enum rl_kind:
        pass
    ctypedef struct rl_rule:
        rl_name name
        rl_verdict then
        int64_t limit
        uint32_t quantile
        uint32_t after
    ctypedef struct rl_layout:
        uint32_t fields
        uint32_t gain_bytes
        uint32_t count_bytes
        uint32_t row_bytes
    ctypedef struct rl_breach:
        uint64_t place
        uint32_t rule
        int64_t observed
        int64_t limit
    ctypedef struct rl_state:
        rl_layout layout
        rk_players players
        uint64_t known
        uint64_t *histogram
        uint64_t scores
        bint saving
        int64_t low
        int64_t high
        rl_breach *breaches
        uint64_t breach_count
    ctypedef struct rl_run:
        const char *const *ids
        const uint32_t *lengths
        const int64_t *scores
        const uint8_t *deltas
        const int64_t *times
        const int64_t *elapsed
    rk_status rl_init(rl_state *state, const rl_rule *rules, uint32_t count,
                      rl_score_rule score_rule, bint higher_wins, const rl_layout *layout,
                      uint64_t seed)
    void rl_clear(rl_state *state)
    rk_status rl_judge(rl_state *state, uint64_t count, const rl_run *run, uint8_t *verdicts)
    rk_status rl_count(rl_state *state, const char *id, size_t length, int64_t number,
                       rl_kind kind)
    rk_status rl_forget(rl_state *state, const char *id, size_t length)
    void rl_savepoint(rl_state *state)
    void rl_rollback(rl_state *state)
    void rl_release(rl_state *state)
    rk_status rl_copy(const rl_state *source, rl_state *to, uint64_t seed)
    rk_status rl_redefine(const rl_state *source, rl_state *to, int64_t scale)
    bint rl_knows(const rl_state *state, uint32_t number)
    const uint8_t *rl_row(const rl_state *state, uint32_t number)
    rk_status rl_put(rl_state *state, const char *id, size_t length, const uint8_t *row)
    uint64_t rl_bucket(const rl_state *state, uint32_t bucket)
    void rl_add_to_bucket(rl_state *state, uint32_t bucket, uint64_t count)
    size_t rl_bytes(const rl_state *state)
    int rl_check(const rl_state *state)

assert [RL_FLAGS, RL_TIME, RL_VALUE, RL_GAINS, RL_COUNTS, RL_USUAL, RL_HISTOGRAM] == list(Field)
assert (RL_SEEN, RL_COUNTED, RL_VALUED) == (SEEN, COUNTED, VALUED)
assert (RL_RULES_MAX, RK_ID_BYTES_MAX, RL_BUCKETS) == (ROW_RULES_MAX, ID_BYTES_MAX, BUCKETS)


def fail_allocation(uint64_t k):
    rk_fail_allocation(k)


def allocations():
    return rk_allocations()


def bytes_in_use():
    return rk_bytes_in_use()


cdef uint64_t _seed():
    return int.from_bytes(urandom(8), "little")


cdef int _succeed(rk_status status) except -1:
    if status == RK_NO_MEMORY:
        raise MemoryError("no memory for the state of rules")
    if status == RK_FULL:
        raise OverflowError("all player numbers are taken")
    assert status == RK_OK, f"unexpected status {<int>status}"
    return 0


cdef const char *_id_bytes(object id, size_t *length) except NULL:
    cdef Py_ssize_t size
    cdef const char *text = PyUnicode_AsUTF8AndSize(id, &size)
    if size == 0 or size > RK_ID_BYTES_MAX:
        raise ValueError(f"a player id has 1 to {RK_ID_BYTES_MAX} bytes of UTF-8, not {size}")
    length[0] = size
    return text


cdef class RuleState:
    cdef rl_state _state
    cdef readonly tuple rules
    cdef readonly str rule_of_board
    cdef readonly bint higher_wins
    cdef readonly object layout
    cdef readonly tuple bounds

    def __init__(self, rules, rule_of_board, higher_wins, bounds=UNBOUNDED):
        conditions = read_conditions(rules)
        layout = layout_of(conditions, rule_of_board)
        cdef rl_score_rule score_rule = <rl_score_rule><int>SCORE_RULES.index(rule_of_board)
        cdef rl_rule found[32]
        cdef rl_layout fields
        cdef uint32_t count = len(conditions)
        cdef uint32_t i
        for i in range(count):
            condition = conditions[i]
            found[i].name = <rl_name><int>condition.rule
            found[i].then = <rl_verdict><int>condition.then
            found[i].limit, found[i].quantile = condition.limit, condition.quantile
            found[i].after = condition.after
        fields.fields, fields.gain_bytes = layout.fields, layout.gain_bytes
        fields.count_bytes, fields.row_bytes = layout.count_bytes, layout.row_bytes
        self.rules, self.rule_of_board = tuple(rules), str(rule_of_board)
        self.higher_wins, self.layout = bool(higher_wins), layout
        rl_clear(&self._state)
        _succeed(rl_init(&self._state, found, count, score_rule, self.higher_wins, &fields,
                         _seed()))
        self.bounds = tuple(bounds)
        self._state.low, self._state.high = bounds

    def __dealloc__(self):
        rl_clear(&self._state)

    def __len__(self):
        return self._state.known

    @property
    def memory(self):
        return rl_bytes(&self._state)

    def judge(self, players, const int64_t[::1] scores not None, const uint8_t[::1] deltas,
              const int64_t[::1] times not None, const int64_t[::1] elapsed=None):
        cdef Py_ssize_t count = len(players)
        cdef object items = players if isinstance(players, (list, tuple)) else list(players)
        if scores.shape[0] != count or times.shape[0] != count:
            raise ValueError(f"{count} submissions need as many scores and times")
        if deltas is not None and deltas.shape[0] != count:
            raise ValueError(f"{count} submissions need as many deltas, or None")
        if elapsed is not None and elapsed.shape[0] != count:
            raise ValueError(f"{count} submissions need as many runs, or None")
        if count == 0:
            self._state.breach_count = 0
            return None
        cdef const char **ids = <const char **>PyMem_Malloc(count * sizeof(char *))
        cdef uint32_t *lengths = <uint32_t *>PyMem_Malloc(count * sizeof(uint32_t))
        cdef rl_run run
        cdef size_t length
        cdef Py_ssize_t i
        try:
            if ids == NULL or lengths == NULL:
                raise MemoryError("no memory for the ids of a run")
            for i in range(count):
                ids[i] = _id_bytes(items[i], &length)
                lengths[i] = <uint32_t>length
            run.ids, run.lengths = ids, lengths
            run.scores, run.times = &scores[0], &times[0]
            run.deltas = NULL if deltas is None else &deltas[0]
            run.elapsed = NULL if elapsed is None else &elapsed[0]
            verdicts = PyBytes_FromStringAndSize(NULL, count)
            _succeed(rl_judge(&self._state, count, &run,
                              <uint8_t *>PyBytes_AS_STRING(verdicts)))
        finally:
            PyMem_Free(ids)
            PyMem_Free(lengths)
        return verdicts if self._state.breach_count else None

    def reasons(self, uint64_t row):
        cdef uint64_t low = 0, high = self._state.breach_count, middle
        while low < high:
            middle = (low + high) // 2
            if self._state.breaches[middle].place < row:
                low = middle + 1
            else:
                high = middle
        found = []
        while low < self._state.breach_count and self._state.breaches[low].place == row:
            breach = self._state.breaches[low]
            found.append((breach.rule, breach.observed, breach.limit))
            low += 1
        return found

    def count(self, player, int64_t number, kind):
        cdef size_t length
        cdef const char *text = _id_bytes(player, &length)
        _succeed(rl_count(&self._state, text, length, number, <rl_kind><int>KINDS.index(kind)))

    def forget(self, player):
        cdef size_t length
        cdef const char *text = _id_bytes(player, &length)
        cdef rk_status status = rl_forget(&self._state, text, length)
        if status == RK_ABSENT:
            return False
        _succeed(status)
        return True

    def savepoint(self):
        rl_savepoint(&self._state)

    def rollback(self):
        if not self._state.saving:
            raise RuntimeError("there is no savepoint to go back to")
        rl_rollback(&self._state)

    def release(self):
        rl_release(&self._state)

    def copy(self):
        cdef RuleState made = RuleState(self.rules, self.rule_of_board, self.higher_wins,
                                        self.bounds)
        rl_clear(&made._state)
        _succeed(rl_copy(&self._state, &made._state, _seed()))
        return made

    def redefined(self, rules, int64_t scale=1, bounds=UNBOUNDED):
        cdef RuleState made = RuleState(rules, self.rule_of_board, self.higher_wins, bounds)
        _succeed(rl_redefine(&self._state, &made._state, scale))
        return made

    def save(self):
        cdef uint32_t row_bytes = self._state.layout.row_bytes
        cdef uint32_t number
        cdef size_t length, size = 0
        cdef const char *text
        cdef uint16_t id_bytes
        cdef uint8_t *to
        for number in range(self._state.players.issued):
            if rl_knows(&self._state, number):
                rk_players_id(&self._state.players, number, &length)
                size += 2 + length + row_bytes
        body = PyBytes_FromStringAndSize(NULL, size)
        to = <uint8_t *>PyBytes_AS_STRING(body)
        for number in range(self._state.players.issued):
            if not rl_knows(&self._state, number):
                continue
            text = rk_players_id(&self._state.players, number, &length)
            id_bytes = <uint16_t>length
            to[0], to[1] = id_bytes & 255, id_bytes >> 8
            memcpy(to + 2, text, length)
            memcpy(to + 2 + length, rl_row(&self._state, number), row_bytes)
            to += 2 + length + row_bytes
        return seal(self, self._state.known, body, self._buckets())

    cdef list _buckets(self):
        cdef uint32_t bucket
        if self._state.histogram == NULL:
            return []
        counts = [(bucket, rl_bucket(&self._state, bucket)) for bucket in range(RL_BUCKETS)]
        return [pair for pair in counts if pair[1]]

    def load(self, data):
        if self._state.known or self._state.scores or self._state.saving:
            raise ValueError("only the state of a board without submissions can be loaded")
        cdef RuleState made = RuleState(self.rules, self.rule_of_board, self.higher_wins,
                                        self.bounds)
        players, body, buckets = unseal(self, data)
        made._put_players(players, body)
        for bucket, count in buckets:
            rl_add_to_bucket(&made._state, bucket, count)
        cdef rl_state emptied = self._state
        self._state = made._state
        made._state = emptied

    cdef int _put_players(self, uint64_t count, const uint8_t[::1] body) except -1:
        cdef Py_ssize_t at = 0, size = body.shape[0]
        cdef uint32_t row_bytes = self._state.layout.row_bytes, length
        cdef rk_status status
        cdef const char *text
        while count and size - at >= 2:
            length = body[at] | <uint32_t>body[at + 1] << 8
            if not 1 <= length <= RK_ID_BYTES_MAX or size - at - 2 < length + row_bytes:
                raise ValueError("the saved state of rules has a player without an id or a row")
            text = <const char *>&body[at + 2]
            PyUnicode_DecodeUTF8(text, length, NULL)
            status = rl_put(&self._state, text, length, &body[at + 2 + length])
            if status == RK_PRESENT:
                raise ValueError("the saved state of rules has a player twice")
            if status == RK_UNORDERED:
                raise ValueError("the saved state of rules has a row out of bounds")
            _succeed(status)
            at += 2 + length + row_bytes
            count -= 1
        if count or at != size:
            raise ValueError("the saved state of rules has more or fewer players than it says")
        return 0

    def check(self):
        cdef int broken = rl_check(&self._state)
        assert broken == 0, f"invariant R{broken} of the state of rules does not hold"
