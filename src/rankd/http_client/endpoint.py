"""The server of requests, with the proxy in front of it if the environment names one."""

import ssl
from base64 import b64encode
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from rankd.http_client.message import HttpRequest, encode_request

PORTS = {"http": 80, "https": 443}


class HttpProxy(NamedTuple):
    """An HTTP proxy."""

    host: str
    port: int
    authorization: str | None


class Endpoint:
    """A scheme, host and port, with the headers of every request to it.

    Raises ValueError for an invalid address.
    """

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        *,
        ssl_context: ssl.SSLContext | None = None,
        use_environment: bool = True,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in PORTS or not parts.hostname:
            raise ValueError("the address must be like http://127.0.0.1:8700")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("the address must have no name, password, query or fragment")
        self.url = url.rstrip("/")
        self.host = parts.hostname
        self.port = parts.port or PORTS[parts.scheme]
        self.ssl_context: ssl.SSLContext | None = None
        if parts.scheme == "https":
            self.ssl_context = ssl_context or ssl.create_default_context()
        self.proxy = _proxy_to(parts) if use_environment else None
        """None for this machine's own addresses: no proxy leads there."""
        self._prefix = parts.path.rstrip("/")
        if self.proxy is not None and self.ssl_context is None:
            self._prefix = f"http://{parts.netloc}{self._prefix}"
            if self.proxy.authorization is not None:
                headers = {**headers, "proxy-authorization": self.proxy.authorization}
        self._common = b"".join(
            f"{name}: {value}\r\n".encode("latin-1")
            for name, value in {"host": parts.netloc, **headers}.items()
        )

    def encode(self, request: HttpRequest) -> bytes:
        """Return the bytes of a request to this endpoint. Raises ValueError."""
        return encode_request(request, target=self._prefix + request.path, common=self._common)

    def encode_tunnel(self) -> bytes | None:
        """Return the request that opens a tunnel through the proxy; None if none is needed."""
        if self.proxy is None or self.ssl_context is None:
            return None
        host = f"[{self.host}]" if ":" in self.host else self.host
        target, headers = f"{host}:{self.port}", {}
        if self.proxy.authorization is not None:
            headers["proxy-authorization"] = self.proxy.authorization
        common = f"host: {target}\r\n".encode("ascii")
        return encode_request(HttpRequest("CONNECT", "", headers), target=target, common=common)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port to connect to: the proxy's, if there is one."""
        if self.proxy is not None:
            return self.proxy.host, self.proxy.port
        return self.host, self.port


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy_to(parts: SplitResult) -> HttpProxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name."""
    assert parts.hostname is not None
    if is_loopback(parts.hostname) or proxy_bypass(parts.hostname):
        return None
    named = getproxies()
    url = named.get(parts.scheme) or named.get("all")
    if not url:
        return None
    proxy = urlsplit(url if "://" in url else f"http://{url}")
    if proxy.scheme != "http" or not proxy.hostname:
        raise ValueError("the proxy that the environment names must be like http://HOST:PORT")
    return HttpProxy(proxy.hostname, proxy.port or PORTS["http"], basic_authorization(proxy))


def basic_authorization(parts: SplitResult) -> str | None:
    """Return the header for the name and password in an address; None without a name."""
    if parts.username is None:
        return None
    known = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(known.encode()).decode('ascii')}"
