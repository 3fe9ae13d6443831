# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=False
# distutils: language = c
"""Native templates: this module finds the values of a row, and text.c writes them.

The version in pure Python is the reference in tests. Every call holds the interpreter's lock from
start to end.
"""

from cpython.array cimport array as column_array
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeASCII
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX

from rankd.templates.placeholders import Placeholder, PlaceholderKind


cdef extern from "text.h" nogil:
    ctypedef struct fm_text:
        char *bytes
        size_t size
    void fm_text_init(fm_text *text)
    void fm_text_empty(fm_text *text)
    bint fm_put(fm_text *text, const char *bytes, size_t size)
    bint fm_put_number(fm_text *text, int64_t number)
    bint fm_put_quoted(fm_text *text, const char *bytes, size_t size)
    bint fm_put_share(fm_text *text, uint64_t rank, uint64_t total)
    int64_t fm_masked(const uint8_t *bytes, uint64_t mask)


cdef enum kind:
    NUMBER, OPTIONAL, GUARDED, CHANGE, SHARE, CHOICE, TEXT, RAW, COUNT, MASKED

assert [NUMBER, OPTIONAL, GUARDED, CHANGE, SHARE, CHOICE, TEXT, RAW, COUNT, MASKED] == list(PlaceholderKind)

# The memory layout of a column's values.
cdef enum layout:
    ONE, OBJECTS, SIGNED_64, UNSIGNED_32, BYTES

cdef struct source:
    layout lies
    Py_ssize_t length
    const void *data
    void *object  # Borrowed from the caller's columns.

cdef struct placeholder:
    kind what
    Py_ssize_t column
    Py_ssize_t other
    Py_ssize_t every
    uint64_t mask

# Shared by all templates: a call is done with it before another can begin.
cdef fm_text _text
fm_text_init(&_text)


cdef inline int _wrote(bint done) except -1:
    if not done:
        raise MemoryError("no memory for an answer")
    return 0


cdef class Form:
    cdef placeholder *_blanks
    cdef Py_ssize_t _count, _columns
    cdef list _pieces, _choices

    def __cinit__(self, parts):
        """Store placeholders and the JSON between them: one piece more than placeholders."""
        parts = list(parts)
        self._pieces, self._choices, self._columns = [b""], [], 0
        blanks = [part for part in parts if isinstance(part, Placeholder)]
        self._blanks = <placeholder *>PyMem_Malloc(max(len(blanks), 1) * sizeof(placeholder))
        if self._blanks == NULL:
            raise MemoryError("no memory for a form")
        for part in parts:
            if isinstance(part, Placeholder):
                self._add(part)
            else:
                self._pieces[self._count] += <bytes?>part

    def __dealloc__(self):
        PyMem_Free(self._blanks)

    cdef int _add(self, object part) except -1:
        cdef placeholder *new = &self._blanks[self._count]
        new.what = <kind><int>part.kind
        new.column, new.other, new.every, new.mask = part.column, part.other, part.every, part.mask
        if min(new.column, new.other) < 0 or new.every < 1 or not NUMBER <= new.what <= MASKED:
            raise ValueError("there is no such blank")
        self._columns = max(self._columns, new.column + 1, new.other + 1)
        self._choices.append([<bytes?>text for text in part.texts])
        self._pieces.append(b"")
        self._count += 1
        return 0

    def fill_one(self, values):
        cdef tuple kept = values if type(values) is tuple else tuple(values)
        cdef source few[16]
        cdef source *sources = few
        cdef Py_ssize_t i
        if len(kept) < self._columns:
            raise IndexError("a form has more columns than that")
        if self._columns > 16:
            sources = <source *>PyMem_Malloc(self._columns * sizeof(source))
            if sources == NULL:
                raise MemoryError("no memory for an answer")
        try:
            for i in range(self._columns):
                sources[i].lies, sources[i].length, sources[i].data = ONE, 1, NULL
                sources[i].object = <void *>kept[i]
            fm_text_empty(&_text)
            self._row(sources, 0, 0)
            return PyBytes_FromStringAndSize(_text.bytes, _text.size)
        finally:
            if sources != few:
                PyMem_Free(sources)

    def fill(self, columns, Py_ssize_t start, Py_ssize_t end):
        return self._fill(columns, start, end, None, None)

    def fill_each(self, columns, Py_ssize_t start, Py_ssize_t end):
        each = []
        self._fill(columns, start, end, None, each)
        return each

    def fill_rows(self, columns, rows):
        cdef list some = rows if type(rows) is list else list(rows)
        return self._fill(columns, 0, len(some), some, None)

    cdef object _fill(self, object columns, Py_ssize_t start, Py_ssize_t end, list rows, list each):
        cdef tuple kept = columns if type(columns) is tuple else tuple(columns)
        cdef Py_ssize_t place, row
        if not 0 <= start <= end:
            raise ValueError("rows count from 0")
        if len(kept) < self._columns:
            raise IndexError("a form has more columns than that")
        cdef source *sources = <source *>PyMem_Malloc(max(self._columns, 1) * sizeof(source))
        if sources == NULL:
            raise MemoryError("no memory for an answer")
        try:
            for row in range(self._columns):
                _find(kept[row], &sources[row])
            fm_text_empty(&_text)
            for place in range(start, end):
                row = place if rows is None else rows[place]
                if row < 0:
                    raise ValueError("rows count from 0")
                if each is not None:
                    _text.size = 0
                elif place > start:
                    _wrote(fm_put(&_text, b",", 1))
                self._row(sources, row, place)
                if each is not None:
                    each.append(PyBytes_FromStringAndSize(_text.bytes, _text.size))
            return None if each is not None else PyBytes_FromStringAndSize(_text.bytes, _text.size)
        finally:
            PyMem_Free(sources)

    cdef int _row(self, source *sources, Py_ssize_t row, Py_ssize_t place) except -1:
        cdef Py_ssize_t i
        cdef bytes piece
        for i in range(self._count + 1):
            piece = <bytes>self._pieces[i]
            _wrote(fm_put(&_text, PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece)))
            if i < self._count:
                self._write(&self._blanks[i], i, sources, row, place)
        return 0

    cdef int _write(self, placeholder *to, Py_ssize_t which, source *sources, Py_ssize_t row,
                    Py_ssize_t place) except -1:
        cdef source *here = &sources[to.column]
        cdef Py_ssize_t at = row * to.every
        cdef int64_t number, other
        cdef bytes raw
        if to.what == TEXT:
            return _write_text(_object_at(here, at))
        if to.what == RAW:
            return _write_raw(_object_at(here, at))
        if to.what == MASKED:
            return _wrote(fm_put_number(&_text, fm_masked(_eight_at(here, at), to.mask)))
        if to.what == COUNT:
            return _wrote(fm_put_number(&_text, <int64_t>(<object>here.object) + place))
        number = _number_at(here, at)
        if to.what == NUMBER:
            return _wrote(fm_put_number(&_text, number))
        if to.what == OPTIONAL:
            return _write_number(number, number != 0)
        if to.what == CHOICE:
            choices = <list>self._choices[which]
            if not 0 <= number < len(choices):
                raise IndexError("there is no such choice")
            raw = <bytes>choices[number]
            return _wrote(fm_put(&_text, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)))
        other = _number_at(&sources[to.other], row)
        if to.what == GUARDED:
            return _write_number(number, other != 0)
        if to.what == CHANGE:
            return _write_number(number - other, number != 0 and other != 0)
        if number == 0:
            return _write_number(0, False)
        if not 1 <= number <= other:
            raise ValueError("a rank lies beyond the total")
        return _wrote(fm_put_share(&_text, number, other))


cdef int _find(object column, source *into) except -1:
    """Store the memory layout of a column's values in ``into``."""
    cdef column_array numbers
    into.object, into.data = <void *>column, NULL
    into.lies, into.length = OBJECTS, 0
    if isinstance(column, bytes):
        into.lies, into.length = BYTES, PyBytes_GET_SIZE(column)
        into.data = PyBytes_AS_STRING(column)
    elif isinstance(column, column_array):
        numbers = column
        into.length, into.data = len(numbers), numbers.data.as_voidptr
        if numbers.typecode in ("q", "Q"):
            into.lies = SIGNED_64
        elif numbers.typecode == "I":
            into.lies = UNSIGNED_32
    elif column is None or isinstance(column, int):
        into.lies, into.length = ONE, PY_SSIZE_T_MAX
    else:
        into.length = len(column)
    if into.lies == OBJECTS and not isinstance(column, (list, tuple)):
        raise TypeError("a column is an array of numbers, bytes, a list or a tuple")
    return 0


cdef inline int _check(source *here, Py_ssize_t last) except -1:
    if last >= here.length:
        raise IndexError("a column is shorter than that")
    return 0


cdef inline int64_t _number_at(source *here, Py_ssize_t at) except? -1:
    _check(here, at)
    if here.lies == SIGNED_64:
        return (<const int64_t *>here.data)[at]
    if here.lies == UNSIGNED_32:
        return (<const uint32_t *>here.data)[at]
    if here.lies == BYTES:
        return (<const uint8_t *>here.data)[at]
    return <int64_t>_object_at(here, at)


cdef inline object _object_at(source *here, Py_ssize_t at):
    _check(here, at)
    if here.lies == ONE:
        return <object>here.object
    if type(<object>here.object) is list:
        return (<list>here.object)[at]
    return (<object>here.object)[at]


cdef inline const uint8_t *_eight_at(source *here, Py_ssize_t at) except NULL:
    cdef bytes packed
    if here.lies == ONE:
        packed = <bytes?>(<object>here.object)
        if PyBytes_GET_SIZE(packed) < at + 8:
            raise IndexError("a column is shorter than that")
        return <const uint8_t *>PyBytes_AS_STRING(packed) + at
    if here.lies != BYTES:
        raise TypeError("masked numbers lie in bytes")
    _check(here, at + 7)
    return <const uint8_t *>here.data + at


cdef inline int _write_number(int64_t number, bint there) except -1:
    return _wrote(fm_put_number(&_text, number) if there else fm_put(&_text, b"null", 4))


cdef int _write_text(object value) except -1:
    cdef Py_ssize_t size
    cdef const char *text
    if value is None:
        return _write_number(0, False)
    text = PyUnicode_AsUTF8AndSize(value, &size)
    return _wrote(fm_put_quoted(&_text, text, size))


cdef int _write_raw(object value) except -1:
    cdef bytes raw
    if value is None:
        return _write_number(0, False)
    raw = <bytes?>value
    return _wrote(fm_put(&_text, PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)))


def enclose(bytes head not None, bodies, Py_ssize_t size_max):
    cdef Py_ssize_t begin = PyBytes_GET_SIZE(head), size
    cdef bytes body, letter
    cdef char *text
    cdef list letters = []
    for one in bodies:
        if type(one) is not bytes or PyBytes_GET_SIZE(one) > size_max:
            letters.append(None)
            continue
        body = <bytes>one
        size = PyBytes_GET_SIZE(body)
        fm_text_empty(&_text)
        _wrote(fm_put_number(&_text, size) and fm_put(&_text, b"\r\n\r\n", 4))
        letter = PyBytes_FromStringAndSize(NULL, begin + <Py_ssize_t>_text.size + size)
        text = PyBytes_AS_STRING(letter)
        memcpy(text, PyBytes_AS_STRING(head), begin)
        memcpy(text + begin, _text.bytes, _text.size)
        memcpy(text + begin + _text.size, PyBytes_AS_STRING(body), size)
        letters.append(letter)
    return letters
