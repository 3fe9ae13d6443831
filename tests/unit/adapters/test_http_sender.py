"""The sender of messages: where it connects to, what it signs, and how it takes bad answers."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from standardwebhooks import Webhook, WebhookVerificationError
from tests.webhook_receiver import Got, receiving, response

from rankd.adapters import http_sender
from rankd.adapters.http_sender import HttpSender, is_public
from rankd.ports import Message, SendResult
from rankd.signatures import new_webhook_secret

pytestmark = pytest.mark.anyio

SECRET = new_webhook_secret()


async def send(
    url: str, *, private: bool = True, seconds_max: float = 5.0, **made: Any
) -> SendResult:
    message = Message(url, "msg_1", b'{"score":"\xc3\xa4"}', SECRET)
    sender = HttpSender(private_addresses=private, **made)
    return await sender.send(message, time=int(time.time()), seconds_max=seconds_max)


async def test_the_reference_receiver_accepts_the_signature() -> None:
    async with receiving(lambda _: response(201, b"thanks")) as receiver:
        result = await send(receiver.url + "/deep?a=1&b=%20")
    assert result == SendResult(201, b"thanks")
    (got,) = receiver.got
    assert got.path == "/hook/deep?a=1&b=%20"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert got.headers["user-agent"].startswith("rankd/")
    assert Webhook(SECRET).verify(got.body, got.headers) == json.loads(got.body)
    for other in (got.body + b" ", got.body[:-1]):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(other, got.headers)
    for name in ("webhook-id", "webhook-timestamp"):
        with pytest.raises(WebhookVerificationError):
            Webhook(SECRET).verify(got.body, {**got.headers, name: got.headers[name] + "0"})
    with pytest.raises(WebhookVerificationError):
        Webhook(new_webhook_secret()).verify(got.body, got.headers)


async def test_without_a_secret_there_is_no_signature() -> None:
    async with receiving() as receiver:
        message = Message(receiver.url, "msg_1", b"{}", None)
        await HttpSender(private_addresses=True).send(message, time=1, seconds_max=5)
    assert "webhook-signature" not in receiver.got[0].headers
    assert receiver.got[0].headers["webhook-timestamp"] == "1"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "192.168.1.1",
        "224.0.0.1",
        "255.255.255.255",
        "localhost",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[2002:a00:1::]",
        "[2001:0:a00:1::]",
        "[fe80::1]",
        "[fd00::1]",
        "[ff02::1]",
    ],
)
async def test_private_addresses_are_refused_unless_they_are_allowed(host: str) -> None:
    result = await send(f"https://{host}:9/", private=False)
    assert result.status is None
    assert result.problem in (
        "the address is a private address, which webhook_private_addresses does not allow",
        "the name of the host is not known",
    )
    if host[0] == "[" or host.count(".") == 3:
        assert HttpSender().problem(f"https://{host}:9/") is not None


def test_addresses_of_the_internet_are_public() -> None:
    for text in ("1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"):
        assert is_public(ip_address(text)), text


@pytest.mark.parametrize("private", [False, True])
async def test_http_is_for_private_addresses_alone(private: bool) -> None:
    result = await send("http://1.1.1.1/", private=private)
    assert result.problem is not None and "must begin with https" in result.problem
    assert HttpSender(private_addresses=private).problem("https://1.1.1.1/") is None
    assert HttpSender(private_addresses=private).problem("https://game.example/") is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://game.example/",
        "https://",
        "https:///path",
        "https://a@game.example/",
        "https://a:b@game.example/",
        "https://game.example/#part",
        "https://game.example/a b",
        "https://game.example/\r\nhost: x",
        "https://g\u00e4me.example/",
        "https://game.example:0/",
        "https://game.example:99999/",
        "https://[::1/",
        "https://game.example/" + "a" * 2000,
    ],
)
async def test_a_malformed_address_is_refused(url: str) -> None:
    result = await send(url)
    assert result.problem is not None and result.problem.startswith("the address must be")


Names = Callable[..., Any]


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let names resolve to addresses, others each time; return the names asked."""
    asked: list[str] = []

    def look_up(host: str, *_args: Any, **_named: Any) -> Any:
        asked.append(host)
        found = answers[min(len(asked), len(answers)) - 1]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


async def test_a_name_that_resolves_to_a_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = resolving(monkeypatch, ["1.1.1.1", "10.0.0.1"])
    result = await send("https://game.example/", private=False)
    assert result.problem is not None and "private address" in result.problem
    assert asked == ["game.example"]


async def test_the_connection_is_made_to_the_address_that_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with receiving() as receiver:
        asked = resolving(monkeypatch, ["127.0.0.1"], ["127.0.0.9"])
        result = await send(f"http://game.example:{receiver.port}/")
        assert (result.status, asked) == (200, ["game.example"])
        assert receiver.got[0].headers["host"] == f"game.example:{receiver.port}"


async def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as receiver:
        resolving(monkeypatch, ["127.0.0.9", "127.0.0.1"])
        assert (await send(f"http://game.example:{receiver.port}/")).status == 200


@pytest.mark.parametrize("to", ["http://127.0.0.1:1/", "https://game.example/"])
async def test_redirects_are_not_followed(to: str) -> None:
    async with receiving(lambda _: response(307, b"", f"location: {to}")) as receiver:
        assert (await send(receiver.url)).status == 307
    assert len(receiver.got) == 1


async def hang(_got: Got) -> bytes:
    await asyncio.sleep(60)
    return response()


LARGE = 2 * http_sender.RESPONSE_BYTES_MAX


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda _: None, "the connection was closed"),
        (hang, "no complete answer within 0.2 seconds"),
        (lambda _: b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP"),
        (lambda _: response(200, b"x" * LARGE), "a response of over 65,536 bytes"),
        (lambda _: b"HTTP/1.1 200 X\r\n" + b"a: b\r\n" * LARGE, "a response of over 65,536 bytes"),
        (lambda _: response(200, b"1", "content-length: 5"), "the response is not HTTP"),
        (lambda _: b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx", "the connection was closed"),
    ],
)
async def test_an_answer_that_is_none_is_a_problem(answer: Any, problem: str) -> None:
    async with receiving(answer) as receiver:
        result = await send(receiver.url, seconds_max=0.2 if answer is hang else 5)
    assert result == SendResult(None, problem=problem)


async def test_a_slow_answer_is_given_up_though_it_never_falls_silent() -> None:
    async def drips(_got: Got) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 X\r\n"
        while True:
            yield b"a: b\r\n"
            await asyncio.sleep(0.01)

    async with receiving(drips) as receiver:
        result = await send(receiver.url, seconds_max=0.3)
    assert result.problem == "no complete answer within 0.3 seconds"


async def test_a_port_where_nothing_listens_is_a_problem() -> None:
    async with receiving() as receiver:
        pass
    result = await send(receiver.url)
    assert result.status is None and result.problem


def certificate(folder: Path, name: str) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / f"{name}.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + secret)
    return file


async def test_the_certificate_must_be_that_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path, "game.example")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file)
    trusting = ssl.create_default_context(cafile=str(file))
    async with receiving(tls=served) as receiver:
        resolving(monkeypatch, ["127.0.0.1"])
        right, wrong = (f"https://{n}.example:{receiver.port}/" for n in ("game", "other"))
        assert (await send(right, ssl_context=trusting)).status == 200
        for url, context in ((wrong, trusting), (right, None)):
            result = await send(url, ssl_context=context)
            assert result.problem is not None and "certificate verify failed" in result.problem
    assert len(receiver.got) == 1


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    resolving(monkeypatch, ["127.0.0.1"])
    async with receiving() as receiver:
        assert (await send(f"http://game.example:{receiver.port}/")).status == 200
