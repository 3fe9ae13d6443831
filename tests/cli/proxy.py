"""A proxy that is rude: it delivers the request, and cuts the connection instead of answering."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

PATIENCE_SECONDS = 60.0


class CuttingProxy:
    """Passes requests on one by one; the first ``cuts`` of them are never answered."""

    def __init__(self, url: str, cuts: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = cuts
        self.delivered = 0

    def run(self) -> None:
        with contextlib.suppress(OSError):  # How it is told to end.
            while True:
                client, _ = self._listener.accept()
                with client:
                    client.settimeout(PATIENCE_SECONDS)
                    self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            while request := _message(client):
                with socket.create_connection(self._upstream, PATIENCE_SECONDS) as upstream:
                    upstream.sendall(request)
                    answer = _message(upstream)
                self.delivered += 1
                if self.delivered <= self.cuts:
                    return
                client.sendall(answer)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _message(source: socket.socket) -> bytes:
    """Return a whole request or answer; nothing if there is no more."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = source.recv(1 << 16)
        if not part:
            return b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += source.recv(1 << 16)
    return head + b"\r\n\r\n" + body


@contextlib.contextmanager
def cutting(url: str, *, cuts: int) -> Iterator[CuttingProxy]:
    """Stand before a service until the block ends."""
    proxy = CuttingProxy(url, cuts)
    thread = threading.Thread(target=proxy.run, name="proxy")
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(PATIENCE_SECONDS)
