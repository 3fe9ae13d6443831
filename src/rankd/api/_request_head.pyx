# cython: boundscheck=False, wraparound=False
"""The native parser of request heads. request_head.py has the same in Python, as reference."""

from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t
from libc.string cimport memchr, memcmp, memcpy

from rankd.api.request_head import (
    DIGITS_MAX, LEFT_ALONE, OFFSET_NAME, SIGNIFICANT, TARGET, TOKEN, VALUE, WORD_BYTES_MAX,
    WORD_SEGMENT,
)

cdef extern from *:
    """
    #include <string.h>
    static inline const char *rk_find(const char *text, size_t size, const char *what, size_t n) {
        return (const char *)memmem(text, size, what, n);
    }
    """
    const char *rk_find(const char *text, size_t size, const char *what, size_t n) nogil

DEF NAMES = 14
DEF HOST = 0
DEF CONTENT_TYPE = 1
DEF CONTENT_ENCODING = 2
DEF ACCEPT = 3
DEF AUTHORIZATION = 4
DEF IF_NONE_MATCH = 5
DEF IDEMPOTENCY_KEY = 6
DEF RANKD_SIGNATURE = 7
DEF X_FORWARDED_FOR = 8
DEF FORWARDED = 9
DEF ORIGIN = 10
DEF ACCEPT_ENCODING = 11
DEF CONTENT_LENGTH = 12
DEF LAST_EVENT_ID = 13
DEF SKIPPED = -1
DEF LEFT = -2
DEF CONNECTION = -3
DEF NAME_BYTES_MAX = 32

cdef enum:
    IN_TARGET = 1
    IN_TOKEN = 2
    IN_VALUE = 4
    IN_METHOD = 8

cdef uint8_t _kinds[256]
cdef uint8_t _hex[256]
cdef list _names = list(SIGNIFICANT)
cdef int _digits_max = DIGITS_MAX
cdef int _word_segment = WORD_SEGMENT
cdef Py_ssize_t _word_bytes_max = WORD_BYTES_MAX
cdef bytes _offset_name = OFFSET_NAME

assert len(_names) == NAMES and _names[CONTENT_LENGTH] == b"content-length"
assert _names[RANKD_SIGNATURE] == b"rankd-signature"
assert _names[ORIGIN] == b"origin" and _names[X_FORWARDED_FOR] == b"x-forwarded-for"


cdef void _fill_tables():
    cdef int byte
    for byte in range(256):
        _kinds[byte] = 0
        _hex[byte] = 255
        if byte in TARGET:
            _kinds[byte] |= IN_TARGET
        if byte in TOKEN:
            _kinds[byte] |= IN_TOKEN
        if byte in VALUE:
            _kinds[byte] |= IN_VALUE
        if c"A" <= byte <= c"Z":
            _kinds[byte] |= IN_METHOD
    for byte in range(10):
        _hex[c"0" + byte] = byte
    for byte in range(6):
        _hex[c"a" + byte] = _hex[c"A" + byte] = 10 + byte


_fill_tables()


cdef struct piece:
    const char *text
    Py_ssize_t size


cdef class RequestHead:
    cdef bytes _data
    cdef piece _values[NAMES]
    cdef piece _method, _path, _query
    cdef bint _connection
    cdef readonly Py_ssize_t end, length, offset
    cdef readonly bytes key
    cdef readonly object word
    cdef readonly bint colon

    @property
    def method(self):
        return PyUnicode_DecodeASCII(self._method.text, self._method.size, NULL)

    @property
    def path(self):
        return PyUnicode_DecodeASCII(self._path.text, self._path.size, NULL)

    @property
    def query(self):
        if self._query.text is NULL:
            return ""
        return PyUnicode_DecodeASCII(self._query.text, self._query.size, NULL)

    @property
    def authorization(self):
        return self._value(AUTHORIZATION)

    @property
    def forwarded_for(self):
        return self._value(X_FORWARDED_FOR)

    @property
    def plain(self):
        return self._values[ORIGIN].text is NULL

    @property
    def headers(self):
        cdef int name
        found = {}
        for name in range(NAMES):
            if self._values[name].text is not NULL:
                found[_names[name]] = self._value(name)
        return found

    cdef object _value(self, int name):
        cdef piece value = self._values[name]
        if value.text is NULL:
            return None
        return PyBytes_FromStringAndSize(value.text, value.size)


cdef int _which(const char *name, Py_ssize_t size) noexcept nogil:
    """Return the number of a header, given its name in lower case."""
    if size == 2:
        return LEFT if memcmp(name, b"te", 2) == 0 else SKIPPED
    if size == 4:
        return HOST if memcmp(name, b"host", 4) == 0 else SKIPPED
    if size == 6:
        if memcmp(name, b"accept", 6) == 0:
            return ACCEPT
        if memcmp(name, b"origin", 6) == 0:
            return ORIGIN
        return LEFT if memcmp(name, b"expect", 6) == 0 else SKIPPED
    if size == 7:
        if memcmp(name, b"upgrade", 7) == 0 or memcmp(name, b"trailer", 7) == 0:
            return LEFT
        return SKIPPED
    if size == 9:
        return FORWARDED if memcmp(name, b"forwarded", 9) == 0 else SKIPPED
    if size == 10:
        return CONNECTION if memcmp(name, b"connection", 10) == 0 else SKIPPED
    if size == 12:
        return CONTENT_TYPE if memcmp(name, b"content-type", 12) == 0 else SKIPPED
    if size == 13:
        if memcmp(name, b"authorization", 13) == 0:
            return AUTHORIZATION
        if memcmp(name, b"last-event-id", 13) == 0:
            return LAST_EVENT_ID
        return IF_NONE_MATCH if memcmp(name, b"if-none-match", 13) == 0 else SKIPPED
    if size == 14:
        if memcmp(name, b"content-length", 14) == 0:
            return CONTENT_LENGTH
        return LEFT if memcmp(name, b"http2-settings", 14) == 0 else SKIPPED
    if size == 15:
        if memcmp(name, b"accept-encoding", 15) == 0:
            return ACCEPT_ENCODING
        if memcmp(name, b"idempotency-key", 15) == 0:
            return IDEMPOTENCY_KEY
        if memcmp(name, b"rankd-signature", 15) == 0:
            return RANKD_SIGNATURE
        return X_FORWARDED_FOR if memcmp(name, b"x-forwarded-for", 15) == 0 else SKIPPED
    if size == 16:
        return CONTENT_ENCODING if memcmp(name, b"content-encoding", 16) == 0 else SKIPPED
    if size == 17:
        return LEFT if memcmp(name, b"transfer-encoding", 17) == 0 else SKIPPED
    return SKIPPED


cdef inline char _lower(char byte) noexcept nogil:
    return byte + 32 if c"A" <= byte <= c"Z" else byte


cdef bint _is_keep_alive(const char *text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef const char *wanted = b"keep-alive"
    if size != 10:
        return False
    for i in range(10):
        if _lower(text[i]) != wanted[i]:
            return False
    return True


cdef bint _read_header(RequestHead head, const char *text, const char *end) noexcept nogil:
    """Parse one header line into the head; False in doubt."""
    cdef const char *at = text
    cdef const char *value
    cdef char name[NAME_BYTES_MAX]
    cdef Py_ssize_t size
    cdef int which = SKIPPED
    while at < end and _kinds[<uint8_t>at[0]] & IN_TOKEN:
        at += 1
    size = at - text
    if size == 0 or at == end or at[0] != c":":
        return False
    value = at + 1
    at = value
    while at < end and _kinds[<uint8_t>at[0]] & IN_VALUE:
        at += 1
    if at != end:
        return False
    if size <= NAME_BYTES_MAX:
        for i in range(size):
            name[i] = _lower(text[i])
        which = _which(name, size)
    if which == SKIPPED:
        return True
    if which == LEFT:
        return False
    while value < end and value[0] == c" ":
        value += 1
    while end > value and (end - 1)[0] == c" ":
        end -= 1
    if which == CONNECTION:
        if head._connection:  # A repeated header.
            return False
        head._connection = True
        return _is_keep_alive(value, end - value)
    if head._values[which].text is not NULL:
        return False
    head._values[which].text = value
    head._values[which].size = end - value
    return True


cdef bint _read_line(RequestHead head, const char *text, const char *end) noexcept nogil:
    """Parse the request line into the head; False in doubt."""
    cdef const char *at = text
    cdef const char *mark = NULL
    while at < end and _kinds[<uint8_t>at[0]] & IN_METHOD:
        at += 1
    head._method.text, head._method.size = text, at - text
    if at == text or at == end or at[0] != c" ":
        return False
    if head._method.size == 4 and memcmp(text, b"HEAD", 4) == 0:
        return False
    at += 1
    head._path.text = at
    if at == end or at[0] != c"/":
        return False
    while at < end and _kinds[<uint8_t>at[0]] & IN_TARGET:
        if at[0] == c"?":
            if mark is not NULL:
                return False
            mark = at
        at += 1
    if end - at != 9 or memcmp(at, b" HTTP/1.1", 9) != 0:
        return False
    head._path.size = (at if mark is NULL else mark) - head._path.text
    head._query.text, head._query.size = NULL, 0
    if mark is not NULL:
        head._query.text, head._query.size = mark + 1, at - mark - 1
    return True


cdef bint _read_length(RequestHead head) noexcept nogil:
    cdef piece value = head._values[CONTENT_LENGTH]
    cdef Py_ssize_t i
    head.length = 0
    if value.text is NULL:
        return True
    if not 0 < value.size <= _digits_max:
        return False
    for i in range(value.size):
        if not c"0" <= value.text[i] <= c"9":
            return False
        head.length = head.length * 10 + (value.text[i] - c"0")
    return True


cdef piece _find_word(RequestHead head) noexcept nogil:
    """Return the segment that is the word; NULL if there is none."""
    cdef piece word
    cdef const char *at = head._path.text
    cdef const char *end = at + head._path.size
    cdef int slashes = 0
    word.text, word.size = NULL, 0
    while at < end and slashes < _word_segment:
        slashes += at[0] == c"/"
        at += 1
    if slashes < _word_segment:
        return word
    word.text = at
    while at < end and at[0] != c"/":
        at += 1
    word.size = at - word.text
    return word


cdef object _decode_word(RequestHead head, piece word):
    """Return the word, percent-decoded; None in doubt."""
    cdef char decoded[1024]
    cdef Py_ssize_t size = 0, i = 0
    cdef bint escaped = False
    cdef char byte
    head.colon = False
    if word.size > _word_bytes_max:
        return None
    while i < word.size:
        byte = word.text[i]
        if byte == c":":
            head.colon = True
        elif byte == c"%":
            if i + 2 >= word.size:
                return None
            if _hex[<uint8_t>word.text[i + 1]] == 255 or _hex[<uint8_t>word.text[i + 2]] == 255:
                return None
            byte = <char>(_hex[<uint8_t>word.text[i + 1]] * 16 + _hex[<uint8_t>word.text[i + 2]])
            escaped = True
            i += 2
        decoded[size] = byte
        size += 1
        i += 1
    if not escaped:
        return PyUnicode_DecodeASCII(decoded, size, NULL)
    try:
        return PyUnicode_DecodeUTF8(decoded, size, NULL)
    except UnicodeDecodeError:
        return None


cdef piece _find_offset(RequestHead head) noexcept:
    """Return the digits of the first offset in the query; NULL if it stays in the key."""
    cdef piece digits
    cdef const char *name = PyBytes_AS_STRING(_offset_name)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(_offset_name), i
    cdef const char *at = head._query.text
    cdef const char *end = at + head._query.size
    digits.text, digits.size = NULL, 0
    while end - at < size or memcmp(at, name, size) != 0:
        at = <const char *>memchr(at, c"&", end - at)
        if at is NULL:
            return digits
        at += 1
    at += size
    for i in range(min(end - at, _digits_max + 1)):
        if not c"0" <= at[i] <= c"9":
            break
        digits.size = i + 1
    if digits.size == 0 or digits.size > _digits_max or at[0] == c"0":
        digits.size = 0
    elif at + digits.size < end and at[digits.size] != c"&":
        digits.size = 0
    digits.text = at
    return digits


cdef Py_ssize_t _number(piece digits) noexcept nogil:
    cdef Py_ssize_t number = 0, i
    for i in range(digits.size):
        number = number * 10 + (digits.text[i] - c"0")
    return number


cdef inline char *_put(char *to, const char *text, Py_ssize_t size) noexcept:
    memcpy(to, text, size)
    return to + size


cdef char *_put_without(char *to, piece whole, piece cut) noexcept:
    """Put a text with a zero byte in place of a part of it, if that has any bytes."""
    cdef const char *behind = cut.text + cut.size
    if cut.size == 0:
        return _put(to, whole.text, whole.size)
    to = _put(to, whole.text, cut.text - whole.text)
    to = _put(to, b"\0", 1)
    return _put(to, behind, whole.text + whole.size - behind)


cdef bytes _make_key(RequestHead head, piece word, piece offset):
    cdef piece *values = head._values
    cdef bint parameters = values[ACCEPT].text is not NULL and memchr(
        values[ACCEPT].text, c";", values[ACCEPT].size) is not NULL
    cdef Py_ssize_t size = head._method.size + 1 + head._path.size + 6
    cdef bytes key
    cdef char *to
    cdef int name
    cdef char flags = c"@"
    if word.size:
        size += 1 - word.size
    if offset.size:
        size += 1 - offset.size
    if head._query.text is not NULL:
        size += 1 + head._query.size
    for name in range(HOST, ACCEPT):
        size += values[name].size
    if parameters:
        size += values[ACCEPT].size
    key = PyBytes_FromStringAndSize(NULL, size)
    to = PyBytes_AS_STRING(key)
    to = _put(to, head._method.text, head._method.size)
    to = _put(to, b" ", 1)
    to = _put_without(to, head._path, word)
    if head._query.text is not NULL:
        to = _put(to, b"?", 1)
        to = _put_without(to, head._query, offset)
    for name in range(HOST, ACCEPT):
        to = _put(to, b"\n", 1)
        if values[name].text is not NULL:
            to = _put(to, values[name].text, values[name].size)
    to = _put(to, b"\n", 1)
    if parameters:
        to = _put(to, values[ACCEPT].text, values[ACCEPT].size)
    flags += values[AUTHORIZATION].text is not NULL
    flags += 2 * (values[IF_NONE_MATCH].text is not NULL)
    flags += 4 * (values[IDEMPOTENCY_KEY].text is not NULL)
    flags += 8 * (values[X_FORWARDED_FOR].text is not NULL or values[FORWARDED].text is not NULL)
    flags += 16 * (values[ORIGIN].text is not NULL)
    flags += 32 * (values[RANKD_SIGNATURE].text is not NULL)
    to = _put(to, b"\n", 1)
    to[0] = flags
    assert to + 1 == PyBytes_AS_STRING(key) + size
    return key


def parse_head(bytes data not None, Py_ssize_t bytes_max, Py_ssize_t headers_max):
    cdef const char *text = PyBytes_AS_STRING(data)
    cdef const char *end = rk_find(text, PyBytes_GET_SIZE(data), b"\r\n\r\n", 4)
    cdef const char *line
    cdef RequestHead head
    cdef piece word, offset
    cdef Py_ssize_t headers = 0
    if end is NULL or end - text + 4 > bytes_max:
        return None
    head = RequestHead.__new__(RequestHead)
    head._data = data
    head.end = end - text + 4
    line = rk_find(text, end - text + 2, b"\r\n", 2)
    if not _read_line(head, text, line):
        return None
    while line != end:
        text = line + 2
        line = rk_find(text, end - text + 2, b"\r\n", 2)
        headers += 1
        if headers > headers_max or not _read_header(head, text, line):
            return None
    if head._values[HOST].text is NULL or not _read_length(head):
        return None
    word = _find_word(head)
    if word.size:
        head.word = _decode_word(head, word)
        if head.word is None:
            return None
    offset.text, offset.size = NULL, 0
    if not word.size and head._query.text is not NULL:
        offset = _find_offset(head)
        head.offset = _number(offset)
    head.key = _make_key(head, word, offset)
    return head
