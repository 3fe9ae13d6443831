"""A server that reads requests and writes the bytes it was given, on a real socket."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

Script = Callable[[bytes], bytes | None]
"""Returns the bytes to answer a request with; None closes the connection."""


class ScriptedServer:
    """Requests as they came, and how many connections brought them."""

    def __init__(
        self,
        listener: socket.socket,
        script: Script,
        secure: ssl.SSLContext | None,
        *,
        once: bool,
    ) -> None:
        self.port: int = listener.getsockname()[1]
        self._secure = secure
        self._once = once
        self.requests: list[bytes] = []
        self.connections = 0
        self._listener = listener
        self._script = script
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self.port}"

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._secure is not None:
                connection = self._secure.wrap_socket(connection, server_side=True)
            self._answer(connection)
        connection.close()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while (request := _read_request(connection)) is not None:
                self.requests.append(request)
                answer = self._script(request)
                if answer is None:
                    return
                connection.sendall(answer)
                if self._once:
                    return

    def close_connections(self) -> None:
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close_connections()
        for thread in self._threads:
            thread.join()


def _read_request(connection: socket.socket) -> bytes | None:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return None
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            while len(body) < int(line.partition(b":")[2]):
                body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def serving(
    script: Script, *, secure: ssl.SSLContext | None = None, once: bool = False
) -> Iterator[ScriptedServer]:
    """Serve; ``once`` closes each connection after one answer."""
    server = ScriptedServer(socket.create_server(("127.0.0.1", 0)), script, secure, once=once)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


class Tunnel:
    """A proxy that opens one kind of tunnel: to a port of this machine."""

    def __init__(self, port: int) -> None:
        self.requests: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._target = port
        self._threads: list[threading.Thread] = []

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                request = _read_request(connection)
                assert request is not None
                self.requests.append(request)
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                beyond = socket.create_connection(("127.0.0.1", self._target))
                for one, other in ((connection, beyond), (beyond, connection)):
                    thread = threading.Thread(target=_carry, args=(one, other), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def tunnelling(port: int) -> Iterator[Tunnel]:
    tunnel = Tunnel(port)
    thread = threading.Thread(target=tunnel.accept, daemon=True)
    thread.start()
    try:
        yield tunnel
    finally:
        tunnel.close()
        thread.join()


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the contexts of a server with a new certificate, and of a client that trusts it."""
    key, name = (
        Ed25519PrivateKey.generate(),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")]),
    )
    now, host = datetime.now(UTC), x509.IPAddress(ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([host, x509.DNSName("rankd.test")]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, None)
    )
    file = folder / "server.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(secret + made.public_bytes(Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=made.public_bytes(Encoding.PEM).decode())
