"""The sender of messages over HTTP, which keeps to public addresses.

A name is resolved first, its addresses are checked, and the connection is made to a checked one: so
a name that resolves to another address a moment later leads nowhere else. The certificate is that
of the name. A proxy of the environment is not used, since it would resolve the name itself.
"""

import asyncio
import socket
import ssl
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, urlsplit

from rankd._version import __version__
from rankd.http_client import (
    PORTS,
    AsyncTransport,
    Endpoint,
    HttpRequest,
    HttpResponse,
    TransportError,
)
from rankd.model.urls import URL_FORM, valid_url
from rankd.ports import Message, MessageSender, SendResult
from rankd.signatures import webhook_headers

RESPONSE_BYTES_MAX = 64 * 1024
"""Head and body of an answer: a decision and its reason, or nothing."""

ADDRESSES_TRIED_MAX = 3
"""Addresses of one name, such as one of IPv6 and one of IPv4."""

_NAT64 = IPv6Network("64:ff9b::/96")

_PRIVATE = "is a private address, which webhook_private_addresses does not allow"
_PLAIN = "must begin with https: http is for private addresses, where these are allowed"

Address = IPv4Address | IPv6Address


class _Refused(Exception):
    """An address that is not to be connected to."""


class HttpSender(MessageSender):
    """Posts messages, each over a connection of its own."""

    def __init__(
        self, *, private_addresses: bool = False, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self._private_addresses = private_addresses
        self._ssl_context = ssl_context

    def problem(self, url: str) -> str | None:
        if not valid_url(url):
            return URL_FORM
        parts = urlsplit(url)
        if parts.scheme == "http" and not self._private_addresses:
            return _PLAIN
        try:
            self._check(parts, ip_address(parts.hostname or ""))
        except _Refused as exc:
            return str(exc)
        except ValueError:  # A name.
            return None
        return None

    def _check(self, parts: SplitResult, address: Address) -> None:
        public = is_public(address)
        if not public and not self._private_addresses:
            raise _Refused(_PRIVATE)
        if public and parts.scheme == "http":
            raise _Refused(_PLAIN)

    async def send(self, message: Message, *, time: int, seconds_max: float) -> SendResult:
        problem = self.problem(message.url)
        if problem is not None:
            return SendResult(None, problem=f"the address {problem}")
        headers = webhook_headers(message.id, time, message.body, secret=message.secret)
        try:
            async with asyncio.timeout(seconds_max):
                response = await self._post(urlsplit(message.url), headers, message.body)
        except TimeoutError:
            return SendResult(None, problem=f"no complete answer within {seconds_max:g} seconds")
        except (TransportError, OSError, ValueError) as exc:
            return SendResult(None, problem=str(exc) or type(exc).__name__)
        except _Refused as exc:
            return SendResult(None, problem=f"the address {exc}")
        return SendResult(response.status, response.body)

    async def _post(self, parts: SplitResult, headers: dict[str, str], body: bytes) -> HttpResponse:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {"content-type": "application/json", **headers}
        request = HttpRequest("POST", path, sent, body)
        addresses = await self._resolve(parts)
        for number, address in enumerate(addresses, 1):
            try:
                return await self._exchange(parts, address, request)
            except TransportError as exc:
                if exc.sent or number == len(addresses):
                    raise
        raise AssertionError("a name has an address")

    async def _resolve(self, parts: SplitResult) -> list[str]:
        """Return the first addresses of a host, all of them checked."""
        loop, host = asyncio.get_running_loop(), parts.hostname or ""
        try:
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise TransportError("the name of the host is not known", sent=False) from None
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        for address in addresses:
            self._check(parts, ip_address(address))
        return addresses[:ADDRESSES_TRIED_MAX]

    async def _exchange(
        self, parts: SplitResult, address: str, request: HttpRequest
    ) -> HttpResponse:
        endpoint = Endpoint(
            f"{parts.scheme}://{parts.netloc}",
            {"user-agent": f"rankd/{__version__}", "connection": "close"},
            ssl_context=self._tls() if parts.scheme == "https" else None,
            use_environment=False,
            connect_to=(address, parts.port or PORTS[parts.scheme]),
        )
        # Its caller bounds the time of the whole, which no silence is longer than.
        transport = AsyncTransport(
            endpoint, timeout=3600, connections_max=1, response_bytes_max=RESPONSE_BYTES_MAX
        )
        try:
            return await transport.send(request)
        finally:
            await transport.close()

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:  # To load the certificates takes a while.
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context


def is_public(address: Address) -> bool:
    """Whether an address is one of the internet, also where it wraps another one."""
    if isinstance(address, IPv6Address):
        wrapped = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            return False
        if address in _NAT64:
            wrapped = IPv4Address(int(address) & 0xFFFF_FFFF)
        if wrapped is not None:
            return is_public(wrapped)
    return address.is_global and not address.is_multicast
