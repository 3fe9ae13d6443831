"""Signatures: one spelling of the header, and no other request that fits it."""

import hmac
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankd.signatures import (
    Signature,
    SigningKey,
    is_signed,
    new_hmac_secret,
    new_private_key,
    public_key_of,
    public_key_text,
    read_public_key,
    read_signature,
    signed_text,
)

if TYPE_CHECKING:
    from rankd import signatures

ID = "3f0c9ab1d2e4"
PATH = "/v1/boards/b/scores"
BODY = b'{"player":"p","score":1}'
HMAC = SigningKey(ID, "rks_HgYtDc3sN0a1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVw")
ED25519 = SigningKey(ID, "rke_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8")

GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the curve of Ed25519."""


def material_of(key: SigningKey) -> bytes:
    if key is HMAC:
        return key.secret.encode()
    return read_public_key(public_key_of(key.secret))


def is_good(key: SigningKey, value: bytes, text: bytes) -> bool:
    algorithm: signatures.Algorithm = "hmac" if key is HMAC else "ed25519"
    return is_signed(value, text, algorithm=algorithm, material=material_of(key))


def made(key: SigningKey, time: int = 1_794_830_400) -> Signature:
    found = read_signature(key.header("POST", PATH, BODY, time=time).encode())
    assert found is not None
    return found


def test_the_signed_text_is_as_documented() -> None:
    digest = sha256(BODY).hexdigest()
    assert signed_text(7, "POST", PATH, BODY) == f"7.POST.{PATH}.{digest}".encode()


def test_an_hmac_is_what_any_library_makes() -> None:
    value = hmac.new(HMAC.secret.encode(), signed_text(7, "POST", PATH, BODY), "sha256").hexdigest()
    assert HMAC.header("POST", f"{PATH}?numbers=string", BODY, time=7) == f"t=7,kid={ID},v1={value}"


@pytest.mark.parametrize("key", [HMAC, ED25519], ids=["hmac", "ed25519"])
def test_a_signature_fits_its_request_and_no_other(key: SigningKey) -> None:
    signature = made(key)
    assert (signature.time, signature.kid) == (1_794_830_400, ID)
    fits = [
        is_good(key, signature.value, signed_text(time, method, path, body))
        for time in (1_794_830_400, 1_794_830_401)
        for method in ("POST", "PUT")
        for path in (PATH, PATH + "/")
        for body in (BODY, BODY + b" ")
    ]
    assert fits == [True] + 15 * [False]


@pytest.mark.parametrize("key", [HMAC, ED25519], ids=["hmac", "ed25519"])
@given(place=st.integers(0, 63), change=st.integers(1, 255))
def test_a_signature_with_one_byte_changed_fits_nothing(
    key: SigningKey, place: int, change: int
) -> None:
    value = bytearray(made(key).value)
    value[place % len(value)] ^= change
    assert not is_good(key, bytes(value), signed_text(1_794_830_400, "POST", PATH, BODY))


def test_the_second_spelling_of_an_ed25519_signature_is_refused() -> None:
    value = made(ED25519).value
    number = int.from_bytes(value[32:], "little") + GROUP_ORDER
    twin = value[:32] + number.to_bytes(32, "little")
    assert not is_good(ED25519, twin, signed_text(1_794_830_400, "POST", PATH, BODY))


def test_a_signature_of_the_other_algorithm_fits_nothing() -> None:
    text = signed_text(1_794_830_400, "POST", PATH, BODY)
    for key, other in ((HMAC, ED25519), (ED25519, HMAC)):
        assert not is_good(key, made(other).value, text)
        assert not is_good(key, b"", text)


GOOD = f"t=1794830400,kid={ID},v1={64 * 'a'}"


@pytest.mark.parametrize(
    "header",
    [
        "",
        f" {GOOD}",
        f"{GOOD} ",
        f"{GOOD}\n",
        f"{GOOD},",
        f"{GOOD},v2=00",
        GOOD.replace(",", ", "),
        GOOD.replace("t=", "T="),
        GOOD.replace("t=1", "t=01"),
        GOOD.replace("t=1", "t=-1"),
        GOOD.replace("t=1", "t=+1"),
        GOOD.replace("t=1", "t=1_"),
        GOOD.replace("t=1794830400", "t=1794830400.5"),
        GOOD.replace("t=1794830400", "t="),
        GOOD.replace("t=1794830400", "t=" + 13 * "9"),
        GOOD.replace("kid=3", "kid=G"),
        GOOD.replace("kid=3", "kid="),
        GOOD.replace("aaaa", "AAAA", 1),
        GOOD[:-1],
        GOOD + "a",
        GOOD + 63 * "a",
        f"kid={ID},t=1794830400,v1={64 * 'a'}",
        f"{GOOD},{GOOD}",
        f"t=1,t=1,kid={ID},v1={64 * 'a'}",
    ],
)
def test_a_header_has_one_spelling(header: str) -> None:
    assert read_signature(GOOD.encode()) is not None
    assert read_signature(header.encode()) is None


@given(st.binary())
def test_any_bytes_are_read_without_an_error(header: bytes) -> None:
    assert read_signature(header) is None


@given(st.text(alphabet="tkidv1=,0123456789abcdef ", max_size=120))
def test_what_is_read_is_written_the_same(header: str) -> None:
    found = read_signature(header.encode())
    if found is not None:
        assert f"t={found.time},kid={found.kid},v1={found.value.hex()}" == header


def test_keys_are_text_to_hand_on() -> None:
    for secret in (new_hmac_secret(), new_private_key()):
        key = SigningKey(ID, secret)
        assert SigningKey.parse(f"{key.text}\n") == key
        assert secret not in repr(key)
    raw = read_public_key(public_key_of(ED25519.secret))
    assert read_public_key(public_key_text(raw)) == raw


@pytest.mark.parametrize(
    "text",
    ["", ID, f"{ID}:", f"{ID}:secret", "short:rks_x", f"{ID}:rke_", f"{ID}:rke_AAEC", f":{ID}"],
)
def test_what_is_no_key_is_told_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(?!.*secret$)") as caught:
        SigningKey.parse(text)
    assert "AAEC" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "AAEC", 43 * "A" + "B=", 44 * "A", "ä" * 43, 43 * "!"])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_public_key(text)
