"""Frames of the WebSocket protocol (RFC 6455), for a server, without extensions.

Anything ambiguous, or not allowed to a client, is an error: a frame without a mask,
reserved bits, a binary message, a fragment inside another message, a long control frame, text that
is not UTF-8, a length that is written longer than needed.
"""

import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from hashlib import sha1
from typing import NamedTuple

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_CONTINUATION = 0

MESSAGE_BYTES_MAX = 8 * 1024
"""The longest message of a client: a subscription is some hundred bytes."""

CONTROL_BYTES_MAX = 125

NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED = 1000, 1001, 1002, 1003
NOT_TEXT, POLICY, TOO_BIG = 1007, 1008, 1009

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")


class ProtocolError(Exception):
    """The client broke the protocol."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Received(NamedTuple):
    """A message, or a control frame."""

    kind: int
    data: bytes


def accept_of(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the proof that a handshake was understood; None if it is not a valid one."""
    key = headers.get(b"sec-websocket-key", b"")
    if headers.get(b"sec-websocket-version") != b"13" or not _KEY.fullmatch(key):
        return None
    try:
        if len(b64decode(key, validate=True)) != 16:
            return None
    except Error:
        return None
    return b64encode(sha1(key + _GUID, usedforsecurity=False).digest())


def frame(kind: int, data: bytes) -> bytes:
    """Return a frame of the server, which is not masked."""
    size = len(data)
    if size <= 125:
        return bytes((0x80 | kind, size)) + data
    if size < 1 << 16:
        return bytes((0x80 | kind, 126)) + size.to_bytes(2, "big") + data
    return bytes((0x80 | kind, 127)) + size.to_bytes(8, "big") + data


def close_frame(code: int, reason: str = "") -> bytes:
    """Return a close frame."""
    return frame(CLOSE, code.to_bytes(2, "big") + reason.encode()[: CONTROL_BYTES_MAX - 2])


class FrameReader:
    """Reads the frames of a client from the bytes of a connection."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._message: bytearray | None = None

    def feed(self, data: bytes) -> list[Received]:
        """Return the messages and control frames that these bytes complete.

        Raises ProtocolError.
        """
        self._data += data
        found = []
        while (one := self._next()) is not None:
            if one.kind >= CLOSE:
                found.append(one)
            elif (message := self._join(one)) is not None:
                found.append(message)
        return found

    def _next(self) -> Received | None:
        """Return the next frame without its mask; a fragment has 0x80 in its kind."""
        data = self._data
        if len(data) < 2:
            return None
        kind, is_last, size = data[0] & 0x0F, bool(data[0] & 0x80), data[1] & 0x7F
        _check_head(data[0], data[1], kind, is_last=is_last, size=size)
        begin = 2 + {126: 2, 127: 8}.get(size, 0)
        if len(data) < begin:
            return None
        if size > 125:
            size = _long_size(data, begin)
        if size > MESSAGE_BYTES_MAX:
            raise ProtocolError(TOO_BIG, "the message is too long")
        if len(data) < begin + 4 + size:
            return None
        mask, text = data[begin : begin + 4], data[begin + 4 : begin + 4 + size]
        del data[: begin + 4 + size]
        return Received(kind | (0 if is_last else 0x80), _unmask(bytes(text), bytes(mask)))

    def _join(self, part: Received) -> Received | None:
        """Return a message that is complete with this part of it."""
        kind, is_last = part.kind & 0x0F, not part.kind & 0x80
        if (kind == _CONTINUATION) != (self._message is not None):
            raise ProtocolError(PROTOCOL_ERROR, "a message in pieces is out of order")
        if self._message is None:
            self._message = bytearray()
        self._message += part.data
        if len(self._message) > MESSAGE_BYTES_MAX:
            raise ProtocolError(TOO_BIG, "the message is too long")
        if not is_last:
            return None
        message, self._message = bytes(self._message), None
        try:
            message.decode()
        except UnicodeDecodeError:
            raise ProtocolError(NOT_TEXT, "the message is not UTF-8") from None
        return Received(TEXT, message)


def _check_head(first: int, second: int, kind: int, *, is_last: bool, size: int) -> None:
    if first & 0x70:
        raise ProtocolError(PROTOCOL_ERROR, "a reserved bit is set")
    if not second & 0x80:
        raise ProtocolError(PROTOCOL_ERROR, "the frame has no mask")
    if kind == BINARY:
        raise ProtocolError(UNSUPPORTED, "messages are text")
    if kind not in {_CONTINUATION, TEXT, CLOSE, PING, PONG}:
        raise ProtocolError(PROTOCOL_ERROR, "the frame is of an unknown kind")
    if kind >= CLOSE and (not is_last or size > CONTROL_BYTES_MAX):
        raise ProtocolError(PROTOCOL_ERROR, "the control frame is too long, or in pieces")


def _long_size(data: bytearray, begin: int) -> int:
    size = int.from_bytes(data[2:begin], "big")
    if size < (126 if begin == 4 else 1 << 16):
        raise ProtocolError(PROTOCOL_ERROR, "the length is longer than needed")
    return size


def _unmask(text: bytes, mask: bytes) -> bytes:
    size = len(text)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(text, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")


def closing_code(data: bytes) -> int:
    """Return the code to answer a close frame with."""
    if not data:
        return NORMAL
    code = int.from_bytes(data[:2], "big")
    known = 1000 <= code <= 1011 and code not in {1004, 1005, 1006}
    if len(data) < 2 or not (known or 3000 <= code <= 4999):
        return PROTOCOL_ERROR
    try:
        data[2:].decode()
    except UnicodeDecodeError:
        return PROTOCOL_ERROR
    return code
