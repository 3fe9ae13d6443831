"""Players' tokens: what is accepted is fixed, and nothing in a token can change it."""

import asyncio
import base64
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm

from rankd.api.jwt import (
    KEY_SET_BYTES_MAX,
    LEEWAY_SECONDS,
    REFRESH_SECONDS_MIN,
    TIMES,
    TOKEN_BYTES_MAX,
    JwksFile,
    JwksUrl,
    SingleKey,
    TokenReader,
    read_key_file,
    read_key_set,
    reading_tokens,
)
from rankd.errors import InvalidSetting, TokenKeysUnavailable, Unauthenticated
from rankd.settings import Settings

ISSUER, AUDIENCE = "https://login.example", "rankd"
SECRET = b"a secret of the tests, thirty-two bytes or more"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def claims(**changed: Any) -> dict[str, Any]:
    made = {"sub": "p1", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 3600, **changed}
    return {name: value for name, value in made.items() if value is not None}


def signed(headers: dict[str, Any] | None = None, **changed: Any) -> bytes:
    return jwt.encode(claims(**changed), SECRET, algorithm="HS256", headers=headers).encode()


def reader(algorithm: str = "HS256", key: Any = SECRET) -> TokenReader:
    return TokenReader(algorithm=algorithm, issuer=ISSUER, audience=AUDIENCE, keys=SingleKey(key))


def refused(token: bytes, by: TokenReader | None = None) -> str:
    with pytest.raises(Unauthenticated) as raised:
        (by or reader()).read(token)
    return raised.value.problem


def pem(key: Any) -> bytes:
    found: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


# ------------------------------------------------------------------------- what counts


def test_a_token_is_its_players() -> None:
    actor = reader().read(signed())
    assert (actor.player, actor.name, actor.may_create) == ("p1", "player:p1", False)


@pytest.mark.parametrize(("algorithm", "key"), [("RS256", RSA_KEY), ("EdDSA", ED_KEY)])
def test_public_keys_check_what_their_private_halves_signed(algorithm: str, key: Any) -> None:
    token = jwt.encode(claims(), key, algorithm=algorithm).encode()
    assert reader(algorithm, key.public_key()).read(token).player == "p1"
    refused(token[:-8] + b"AAAAAAAA", reader(algorithm, key.public_key()))


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": None},
        {"iss": None},
        {"aud": None},
        {"sub": None},
        {"iss": "https://other.example"},
        {"aud": "other"},
        {"aud": []},
        {"sub": ""},
        {"sub": "x" * 257},
        {"sub": "a\nb"},
        {"exp": "tomorrow"},
        {"exp": float("inf")},
        {"exp": [1]},
        {"nbf": time.time() + 3600},
        {"iat": "x"},
        *({name: "9999999999"} for name in TIMES),
        *({name: True} for name in TIMES),
    ],
)
def test_a_claim_that_is_missing_or_wrong_is_refused(changed: dict[str, Any]) -> None:
    refused(signed(**changed))


def with_payload(payload: str, header: str = '{"alg":"HS256","typ":"JWT"}') -> bytes:
    """Return a token signed over these very texts."""
    parts = [base64.urlsafe_b64encode(text.encode()).rstrip(b"=") for text in (header, payload)]
    body = b".".join(parts)
    mac = hmac.new(SECRET, body, "sha256").digest()
    return body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")


def test_a_claim_that_is_there_twice_is_refused() -> None:
    """Another reader of the same token may go by the other one."""
    plain = json.dumps(claims())
    assert reader().read(with_payload(plain)).player == "p1"
    for twice in (
        plain.replace("{", '{"sub": "p2", ', 1),
        plain.replace("}", ', "\\u0073ub": "p2"}'),
        plain.replace("{", '{"more": [{"a": 1, "a": 1}], ', 1),
    ):
        refused(with_payload(twice))
    for header in ('{"alg":"none","alg":"HS256"}', '{"alg":"HS256","kid":"a","kid":"b"}'):
        assert refused(with_payload(plain, header)) == "the token cannot be read"
    for nothing in ("[]", "null", '"sub"', "[" * 2000):
        refused(with_payload(nothing))


def test_time_is_given_a_little_leeway_and_no_more() -> None:
    assert reader().read(signed(exp=time.time() - LEEWAY_SECONDS / 2)).player == "p1"
    assert refused(signed(exp=time.time() - 2 * LEEWAY_SECONDS)) == "the token has expired"


def test_expiry_is_told_only_where_nothing_else_is_wrong() -> None:
    past = time.time() - 3600
    assert refused(signed(exp=past)) == "the token has expired"
    others: list[dict[str, Any]] = [
        {"aud": "other"},
        {"iss": "https://other.example"},
        {"sub": None},
        {"sub": "a\nb"},
        {"nbf": time.time() + 3600},
    ]
    for other in others:
        assert "expired" not in refused(signed(exp=past, **other))
    forged = jwt.encode(claims(exp=past), SECRET * 2, algorithm="HS256").encode()
    assert "expired" not in refused(forged)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (signed(exp=1), "has expired"),
        (signed(iss="https://other.example"), "another iss"),
        (signed(aud="other"), "jwt_audience in its aud"),
        (signed(aud=["other", "more"]), "jwt_audience in its aud"),
        (signed(sub=None), "has no sub"),
        (signed(exp=None), "has no exp"),
        (signed(aud=None), "has no aud"),
        (signed(iss=None), "has no iss"),
        (signed(sub=""), "sub is not the id of a player"),
        (signed(nbf=time.time() + 3600), "not valid yet"),
        (signed(iat="x"), "iat that is no time"),
        (signed(exp="tomorrow"), "exp, nbf or iat that is no time"),
        (signed(exp="9999999999"), "exp, nbf or iat that is no time"),
        (signed()[:-8] + b"AAAAAAAA", "signed with another key, or was changed"),
        (jwt.encode(claims(), SECRET * 2, algorithm="HS256").encode(), "another key"),
        (b"a.b.c", "cannot be read"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_the_log_is_told_what_is_wrong_and_nothing_of_the_token(token: bytes, reason: str) -> None:
    with pytest.raises(Unauthenticated) as raised:
        reader().read(token)
    assert reason in raised.value.reason
    for part in ("other.example", "tomorrow", *token.decode().split(".")[:2]):
        assert len(part) < 2 or part not in raised.value.reason + raised.value.problem


def test_another_algorithm_is_refused_whatever_it_would_prove() -> None:
    none = jwt.encode(claims(), "", algorithm="none").encode()
    assert refused(none) == "the token is not signed with HS256"
    longer = jwt.encode(claims(), SECRET * 2, algorithm="HS512").encode()
    assert refused(longer) == "the token is not signed with HS256"
    by_secret = refused(signed(), reader("RS256", RSA_KEY.public_key()))
    assert by_secret == "the token is not signed with RS256"


def test_a_public_key_is_never_taken_for_a_secret() -> None:
    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    body = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(claims())
    mac = hmac.new(pem(RSA_KEY), body, "sha256").digest()
    confused = body + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")
    refused(confused, reader("RS256", RSA_KEY.public_key()))


@pytest.mark.parametrize(
    "headers",
    [
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/cert"},
        {"jwk": {"kty": "oct", "k": "AAAA"}},
        {"x5c": ["AAAA"]},
        {"kid": "x" * 1000},
    ],
)
def test_a_header_that_brings_a_key_is_refused(headers: dict[str, Any]) -> None:
    refused(signed(headers))


def test_a_token_has_a_size() -> None:
    assert "longer" in refused(signed(more="x" * TOKEN_BYTES_MAX))
    assert reader().read(signed(more="x" * (TOKEN_BYTES_MAX // 2))).player == "p1"


@pytest.mark.parametrize(
    "token", [b"", b"..", b"a.b.c", b"\xff.\xff.\xff", b"e30.e30.", b"bnVsbA.e30.x", b"W10.e30.x"]
)
def test_what_is_no_token_is_refused(token: bytes) -> None:
    refused(token)


# ------------------------------------------------------------------------------- files


def test_a_secret_is_read_from_a_file_without_its_last_line_end(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET + b"\n")
    assert read_key_file(file, "HS256") == SECRET


@pytest.mark.parametrize(
    ("algorithm", "text"),
    [
        ("HS256", b"short"),
        ("HS256", pem(RSA_KEY)),
        ("RS256", pem(ED_KEY)),
        ("RS256", b"nonsense"),
        ("RS256", pem(ec.generate_private_key(ec.SECP256R1()))),
        ("RS256", pem(rsa.generate_private_key(public_exponent=65537, key_size=1024))),
        (
            "RS256",
            RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        ),
        ("EdDSA", pem(RSA_KEY)),
        ("EdDSA", b"x" * 100_000),
    ],
    ids=["short", "public", "Ed25519", "none", "P-256", "1024 bits", "private", "RSA", "large"],
)
def test_a_file_with_another_kind_of_key_is_refused_and_not_quoted(
    algorithm: str, text: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_bytes(text)
    with pytest.raises(InvalidSetting) as raised:
        read_key_file(file, algorithm)
    assert text[:5].decode() not in str(raised.value).replace("short", "")


# ------------------------------------------------------------------------- sets of keys


def jwk(key: Any, kid: str | None, **more: Any) -> dict[str, Any]:
    made = OKPAlgorithm if isinstance(key, ed25519.Ed25519PrivateKey) else RSAAlgorithm
    found: dict[str, Any] = made.to_jwk(key.public_key(), as_dict=True)
    return {**found, **({} if kid is None else {"kid": kid}), **more}


def jwks(*keys: dict[str, Any]) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_a_set_holds_the_keys_that_are_for_us() -> None:
    text = jwks(
        jwk(RSA_KEY, "a"),
        jwk(RSA_KEY, "b", use="sig", alg="RS256"),
        jwk(RSA_KEY, "for-encryption", use="enc"),
        jwk(RSA_KEY, "another-algorithm", alg="RS512"),
        jwk(ED_KEY, "another-type"),
        jwk(RSA_KEY, "private", d="AAAA"),
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "oct", "kid": "secret", "k": "AAAA"},
    )
    assert set(read_key_set(text, "RS256")) == {"a", "b"}
    assert set(read_key_set(text, "EdDSA")) == {"another-type", None}


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys":{}}', b'{"keys":[' + b"{}," * 65 + b"{}]}"]
)
def test_what_is_no_set_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_key_set(text, "RS256")


def test_a_set_in_a_file_is_read_again_at_most_once_a_minute(tmp_path: Path) -> None:
    file, now = tmp_path / "jwks.json", [0.0]
    file.write_bytes(jwks(jwk(RSA_KEY, "a"), jwk(RSA_KEY, "b")))
    keys = JwksFile(file, "RS256", now=lambda: now[0])
    assert keys.find("a") is not None and keys.find("c") is None and keys.find(None) is None
    file.write_bytes(jwks(jwk(RSA_KEY, "b"), jwk(RSA_KEY, "c")))
    now[0] = REFRESH_SECONDS_MIN - 1
    assert keys.find("c") is None
    now[0] = REFRESH_SECONDS_MIN
    assert keys.find("c") is not None and keys.find("a") is None
    now[0] = 2 * REFRESH_SECONDS_MIN
    file.write_bytes(b"nonsense")
    assert keys.find("x") is None
    assert keys.find("c") is not None, "a set that cannot be read leaves the one there is"


class Issuer:
    """A server that gives out a set of keys, on loopback."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked = answer, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        writer.write(self.answer)
        await writer.drain()
        writer.close()


def answered(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{more}\r\n"
    return head.encode() + body


async def found_after_fetch(keys: JwksUrl, kid: str) -> Any:
    """Ask until nothing is on its way any more, as clients do."""
    try:
        return keys.find(kid)
    except TokenKeysUnavailable:
        if keys._asking is not None:
            await keys._asking
        return keys.find(kid)


def test_a_set_at_an_address_is_fetched_when_needed_and_at_most_once_a_minute() -> None:
    async def test() -> None:
        issuer, now = Issuer(answered(jwks(jwk(RSA_KEY, "a"), jwk(RSA_KEY, "b")))), [0.0]
        async with await asyncio.start_server(issuer.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            keys = JwksUrl(f"http://127.0.0.1:{port}/", "RS256", now=lambda: now[0])
            assert issuer.asked == 0, "nobody needed it yet"
            assert await found_after_fetch(keys, "a") is not None
            for _ in range(5):
                assert keys.find("unknown") is None
            assert issuer.asked == 1
            issuer.answer = answered(jwks(jwk(RSA_KEY, "c"), jwk(RSA_KEY, "b")))
            now[0] = REFRESH_SECONDS_MIN
            assert await found_after_fetch(keys, "c") is not None
            assert issuer.asked == 2
            await keys.close()

    asyncio.run(test())


@pytest.mark.parametrize(
    "answer",
    [
        answered(b"nonsense"),
        answered(b"{}", "500 Oops"),
        answered(b" " * (KEY_SET_BYTES_MAX + 1)),
        b"no HTTP at all\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_set_at_an_address_leaves_tokens_unchecked_and_refused(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        issuer = Issuer(answer)
        async with await asyncio.start_server(issuer.serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            keys = JwksUrl(f"http://127.0.0.1:{port}/", "RS256", now=lambda: 0.0)
            for _ in range(3):
                with pytest.raises(TokenKeysUnavailable):
                    await found_after_fetch(keys, "a")
            assert issuer.asked == 1
            await keys.close()

    with caplog.at_level(logging.WARNING, "rankd.api.jwt"):
        asyncio.run(test())
    assert "could not be fetched" in caplog.text


def test_an_address_is_not_followed_elsewhere() -> None:
    async def test() -> None:
        elsewhere = Issuer(answered(jwks(jwk(RSA_KEY, "a"))))
        async with await asyncio.start_server(elsewhere.serve, "127.0.0.1", 0) as other:
            port = other.sockets[0].getsockname()[1]
            more = f"Location: http://127.0.0.1:{port}/\r\n"
            issuer = Issuer(answered(b"", "302 Found", more))
            async with await asyncio.start_server(issuer.serve, "127.0.0.1", 0) as server:
                port = server.sockets[0].getsockname()[1]
                keys = JwksUrl(f"http://127.0.0.1:{port}/", "RS256", now=lambda: 0.0)
                with pytest.raises(TokenKeysUnavailable):
                    await found_after_fetch(keys, "a")
                await keys.close()
        assert (issuer.asked, elsewhere.asked) == (1, 0)

    asyncio.run(test())


def test_closing_gives_up_asking() -> None:
    async def test() -> None:
        asked, hang = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.set()
            await hang.wait()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            keys = JwksUrl(f"http://127.0.0.1:{port}/", "RS256", now=lambda: 0.0)
            with pytest.raises(TokenKeysUnavailable):
                keys.find("a")
            await asked.wait()
            await keys.close()
            assert keys._asking is None
            hang.set()

    asyncio.run(test())


# ---------------------------------------------------------------------------- settings


def reading(**given: str) -> Any:
    return reading_tokens(Settings(**given), now=lambda: 0.0)  # type: ignore[arg-type]


def test_nothing_is_read_where_nothing_is_set() -> None:
    async def test() -> None:
        async with reading() as read:
            assert read is None

    asyncio.run(test())


def test_what_is_set_is_read(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)

    async def test() -> None:
        async with reading(
            jwt_algorithm="HS256",
            jwt_key_file=str(file),
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
        ) as read:
            assert read(signed()).player == "p1"

    asyncio.run(test())


ALL = {
    "jwt_algorithm": "RS256",
    "jwt_jwks": "https://login.example/keys",
    "jwt_issuer": ISSUER,
    "jwt_audience": AUDIENCE,
}


@pytest.mark.parametrize(
    ("changed", "setting"),
    [
        *[({name: ""}, "jwt_key_file" if name == "jwt_jwks" else name) for name in ALL],
        ({"jwt_algorithm": "none"}, "jwt_algorithm"),
        ({"jwt_algorithm": "RS512"}, "jwt_algorithm"),
        ({"jwt_algorithm": "HS256"}, "jwt_jwks"),
        ({"jwt_key_file": "/nowhere"}, "jwt_jwks"),
        ({"jwt_jwks": "http://login.example/keys"}, "jwt_jwks"),
        ({"jwt_jwks": "http://127.0.0.1.example/keys"}, "jwt_jwks"),
        ({"jwt_jwks": "file:///etc/passwd"}, "jwt_jwks"),
        ({"jwt_jwks": "https://"}, "jwt_jwks"),
        ({"jwt_jwks": "/nowhere/jwks.json"}, "jwt_jwks"),
    ],
)
def test_a_setting_that_is_missing_or_wrong_is_named(changed: dict[str, str], setting: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        reading(**{**ALL, **changed})
    assert raised.value.setting == setting
    reading(**ALL)


@pytest.mark.parametrize("setting", ["jwt_key_file", "jwt_jwks"])
def test_a_file_that_cannot_be_read_is_named(setting: str) -> None:
    given = {name: value for name, value in ALL.items() if name != "jwt_jwks"}
    with pytest.raises(InvalidSetting, match=r"cannot be read: /nowhere/k: No such file"):
        reading(**given, **{setting: "/nowhere/k"})


@pytest.mark.parametrize(
    ("setting", "algorithm"),
    [
        ("jwt_key_file", "HS256"),
        ("jwt_key_file", "RS256"),
        ("jwt_key_file", "EdDSA"),
        ("jwt_jwks", "RS256"),
    ],
)
def test_a_file_that_holds_no_key_is_named(tmp_path: Path, setting: str, algorithm: str) -> None:
    file = tmp_path / "k"
    file.write_bytes(b"too short")
    given = ALL | {"jwt_jwks": "", "jwt_algorithm": algorithm, setting: str(file)}
    with pytest.raises(InvalidSetting, match=f"unlike {file}"):
        reading(**given)
