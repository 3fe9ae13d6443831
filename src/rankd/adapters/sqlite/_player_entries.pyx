# cython: boundscheck=False, wraparound=False
"""Native entries of players; player_entries.py has the same in Python, as reference.

All work is done without the interpreter's lock: it runs beside appends and requests.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from rankd.adapters.sqlite.player_entries import ENTRY_BYTES, HASH_BYTES, SEED_BYTES

DEF ENTRY = 12
DEF HASH = 5
DEF SEED = 16
assert (ENTRY_BYTES, HASH_BYTES, SEED_BYTES) == (ENTRY, HASH, SEED)


# ------------------------------------------------------------------------------- SipHash

cdef inline uint64_t _rotated(uint64_t word, int bits) noexcept nogil:
    return (word << bits) | (word >> (64 - bits))


cdef inline uint64_t _word(const uint8_t *data) noexcept nogil:
    """Return eight bytes as a little-endian number, on any machine."""
    cdef uint64_t word = 0
    cdef int i
    for i in range(8):
        word |= <uint64_t>data[i] << (8 * i)
    return word


cdef inline void _round(uint64_t *v) noexcept nogil:
    v[0] += v[1]; v[1] = _rotated(v[1], 13); v[1] ^= v[0]; v[0] = _rotated(v[0], 32)
    v[2] += v[3]; v[3] = _rotated(v[3], 16); v[3] ^= v[2]
    v[0] += v[3]; v[3] = _rotated(v[3], 21); v[3] ^= v[0]
    v[2] += v[1]; v[1] = _rotated(v[1], 17); v[1] ^= v[2]; v[2] = _rotated(v[2], 32)


cdef uint64_t _siphash(const uint8_t *seed, const uint8_t *data, size_t size) noexcept nogil:
    """SipHash-1-3."""
    cdef uint64_t v[4]
    cdef uint64_t low = _word(seed), high = _word(seed + 8), word
    cdef size_t at = 0
    cdef int i
    v[0] = low ^ <uint64_t>0x736F6D6570736575
    v[1] = high ^ <uint64_t>0x646F72616E646F6D
    v[2] = low ^ <uint64_t>0x6C7967656E657261
    v[3] = high ^ <uint64_t>0x7465646279746573
    while at + 8 <= size:
        word = _word(data + at)
        v[3] ^= word
        _round(v)
        v[0] ^= word
        at += 8
    word = <uint64_t>(size & 0xFF) << 56
    for i in range(<int>(size - at)):
        word |= <uint64_t>data[at + i] << (8 * i)
    v[3] ^= word
    _round(v)
    v[0] ^= word
    v[2] ^= 0xFF
    for i in range(3):
        _round(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def siphash(const uint8_t[:] seed not None, const uint8_t[:] data not None):
    """Return SipHash-1-3 of some bytes under a seed of 16."""
    if seed.shape[0] != SEED:
        raise ValueError("a seed has 16 bytes")
    return _siphash(&seed[0], &data[0] if data.shape[0] else NULL, data.shape[0])


# --------------------------------------------------------------------------- MessagePack

cdef struct reader:
    const uint8_t *at
    const uint8_t *end
    bint bad


cdef inline uint64_t _big_endian(reader *read, size_t size) noexcept nogil:
    """Take a number of some bytes."""
    cdef uint64_t number = 0
    cdef size_t i
    if <size_t>(read.end - read.at) < size:
        read.bad = True
        return 0
    for i in range(size):
        number = number << 8 | read.at[i]
    read.at += size
    return number


cdef inline void _leap(reader *read, uint64_t size) noexcept nogil:
    if <uint64_t>(read.end - read.at) < size:
        read.bad = True
    else:
        read.at += size


cdef uint64_t _array(reader *read) noexcept nogil:
    """Take the head of an array; return its length."""
    cdef uint8_t kind = <uint8_t>_big_endian(read, 1)
    if 0x90 <= kind <= 0x9F:
        return kind & 0x0F
    if kind == 0xDC:
        return _big_endian(read, 2)
    if kind == 0xDD:
        return _big_endian(read, 4)
    read.bad = True
    return 0


cdef inline uint64_t _skip_head(reader *read) noexcept nogil:
    """Take one value without those that it holds; return their number."""
    cdef uint8_t kind = <uint8_t>_big_endian(read, 1)
    if kind <= 0x7F or kind >= 0xE0 or kind == 0xC0 or kind == 0xC2 or kind == 0xC3:
        return 0
    if kind <= 0x8F:
        return 2 * <uint64_t>(kind & 0x0F)
    if kind <= 0x9F:
        return kind & 0x0F
    if kind <= 0xBF:
        _leap(read, kind & 0x1F)
        return 0
    if kind == 0xC4 or kind == 0xD9:
        _leap(read, _big_endian(read, 1))
    elif kind == 0xC5 or kind == 0xDA:
        _leap(read, _big_endian(read, 2))
    elif kind == 0xC6 or kind == 0xDB:
        _leap(read, _big_endian(read, 4))
    elif kind == 0xC7 or kind == 0xC8 or kind == 0xC9:
        _leap(read, _big_endian(read, <size_t>1 << (kind - 0xC7)) + 1)
    elif 0xD4 <= kind <= 0xD8:
        _leap(read, (<uint64_t>1 << (kind - 0xD4)) + 1)
    elif kind == 0xCC or kind == 0xD0:
        _leap(read, 1)
    elif kind == 0xCD or kind == 0xD1:
        _leap(read, 2)
    elif kind == 0xCA or kind == 0xCE or kind == 0xD2:
        _leap(read, 4)
    elif kind == 0xCB or kind == 0xCF or kind == 0xD3:
        _leap(read, 8)
    elif kind == 0xDC:
        return _big_endian(read, 2)
    elif kind == 0xDD:
        return _big_endian(read, 4)
    elif kind == 0xDE:
        return 2 * _big_endian(read, 2)
    elif kind == 0xDF:
        return 2 * _big_endian(read, 4)
    else:
        read.bad = True
    return 0


cdef void _skip(reader *read, uint64_t values) noexcept nogil:
    """Take values with all that they hold; a count is enough, however deep they are."""
    while values > 0 and not read.bad:
        values += _skip_head(read) - 1


cdef bint _text(reader *read, const uint8_t **text, size_t *size) noexcept nogil:
    """Take a text or null; return whether it was a text."""
    cdef uint8_t kind
    cdef uint64_t length = 0
    if read.at == read.end:
        read.bad = True
        return False
    kind = read.at[0]
    read.at += 1
    if kind == 0xC0:
        return False
    if 0xA0 <= kind <= 0xBF:
        length = kind & 0x1F
    elif kind == 0xD9:
        length = _big_endian(read, 1)
    elif kind == 0xDA:
        length = _big_endian(read, 2)
    elif kind == 0xDB:
        length = _big_endian(read, 4)
    else:
        read.bad = True
        return False
    text[0] = read.at
    size[0] = <size_t>length
    _leap(read, length)
    return not read.bad


# ------------------------------------------------------------------------------- entries

cdef inline void _write(
    uint8_t *entry, const uint8_t *seed, const uint8_t *player, size_t player_size,
    const uint8_t *board, size_t board_size, uint64_t position,
) noexcept nogil:
    cdef uint64_t hashed = _siphash(seed, player, player_size)
    cdef uint64_t tag = 0 if board == NULL else _siphash(seed, board, board_size)
    cdef int i
    for i in range(5):
        entry[i] = <uint8_t>(hashed >> (56 - 8 * i))
        entry[5 + i] = <uint8_t>(position >> (32 - 8 * i))
    entry[10] = <uint8_t>(tag >> 56)
    entry[11] = <uint8_t>(tag >> 48)


cdef size_t _scan(
    reader *read, const uint8_t *seed, Py_ssize_t board_field, Py_ssize_t player_field,
    uint64_t first, uint64_t count, uint8_t *entries,
) noexcept nogil:
    """Write an entry for each of the facts that names a player; return their number."""
    cdef size_t written = 0
    cdef uint64_t number, fields, field
    cdef const uint8_t *board
    cdef const uint8_t *player
    cdef const uint8_t *text
    cdef size_t board_size = 0, player_size = 0, size = 0
    for number in range(count):
        board = player = NULL
        fields = _array(read)
        for field in range(fields):
            if read.bad:
                return 0
            if <Py_ssize_t>field == board_field:
                if _text(read, &text, &size):
                    board = text
                    board_size = size
            elif <Py_ssize_t>field == player_field:
                if _text(read, &text, &size):
                    player = text
                    player_size = size
            else:
                _skip(read, 1)
        if read.bad:
            return 0
        if player != NULL:
            _write(entries + written * ENTRY, seed, player, player_size, board, board_size,
                   first + number)
            written += 1
    return written


def scan(
    const uint8_t[:] bodies not None, Py_ssize_t board_field, Py_ssize_t player_field,
    uint64_t first, const uint8_t[:] seed not None,
):
    """Return the entries of a MessagePack array of bodies, by the places of their fields."""
    cdef reader read
    cdef uint64_t count
    cdef size_t written
    cdef uint8_t *entries
    if seed.shape[0] != SEED:
        raise ValueError("a seed has 16 bytes")
    read.at = &bodies[0] if bodies.shape[0] else NULL
    read.end = read.at + bodies.shape[0]
    read.bad = False
    count = _array(&read)
    if read.bad or count > <uint64_t>bodies.shape[0]:
        raise ValueError("these are no bodies of facts")
    entries = <uint8_t *>PyMem_RawMalloc(count * ENTRY + 1)
    if entries == NULL:
        raise MemoryError
    try:
        with nogil:
            written = _scan(&read, &seed[0], board_field, player_field, first, count, entries)
        if read.bad:
            raise ValueError("these are no bodies of facts")
        return PyBytes_FromStringAndSize(<char *>entries, written * ENTRY)
    finally:
        PyMem_RawFree(entries)


cdef void _pass(const uint8_t *source, uint8_t *target, size_t count, int byte) noexcept nogil:
    """Sort by one byte; entries with the same one keep their order."""
    cdef size_t places[256]
    cdef size_t i, place = 0, many
    memset(places, 0, sizeof(places))
    for i in range(count):
        places[source[i * ENTRY + byte]] += 1
    for i in range(256):
        many = places[i]
        places[i] = place
        place += many
    for i in range(count):
        place = places[source[i * ENTRY + byte]]
        places[source[i * ENTRY + byte]] = place + 1
        memcpy(target + place * ENTRY, source + i * ENTRY, ENTRY)


def sort(const uint8_t[:] entries not None):
    """Return entries in order; those of one player must be in the order of positions already."""
    cdef size_t count = entries.shape[0] // ENTRY
    cdef bytes result
    cdef uint8_t *one
    cdef uint8_t *other
    if entries.shape[0] % ENTRY:
        raise ValueError("these are no entries")
    if count == 0:
        return b""
    result = PyBytes_FromStringAndSize(NULL, count * ENTRY)
    one = <uint8_t *>PyBytes_AS_STRING(result)
    other = <uint8_t *>PyMem_RawMalloc(count * ENTRY)
    if other == NULL:
        raise MemoryError
    with nogil:
        _pass(&entries[0], one, count, 4)
        _pass(one, other, count, 3)
        _pass(other, one, count, 2)
        _pass(one, other, count, 1)
        _pass(other, one, count, 0)
        PyMem_RawFree(other)
    return result


def find(const uint8_t[:] entries not None, const uint8_t[:] wanted not None, tag: bytes | None):
    """Return the positions of entries with a hash and, if one is given, a board's tag."""
    cdef size_t count = entries.shape[0] // ENTRY, i
    cdef const uint8_t *entry
    cdef const uint8_t *board = NULL
    cdef uint64_t position
    cdef int byte
    if entries.shape[0] % ENTRY or wanted.shape[0] != HASH or (tag is not None and len(tag) != 2):
        raise ValueError("these are no entries, or no hash and tag")
    if tag is not None:
        board = <const uint8_t *>PyBytes_AS_STRING(tag)
    found = []
    for i in range(count):
        entry = &entries[0] + i * ENTRY
        if memcmp(entry, &wanted[0], HASH) == 0 and (
            board == NULL or (entry[10] == board[0] and entry[11] == board[1])
        ):
            position = 0
            for byte in range(5):
                position = position << 8 | entry[5 + byte]
            found.append(position)
    return found
