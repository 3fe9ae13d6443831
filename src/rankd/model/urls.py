"""Addresses that the service sends requests to, as people write them down."""

from urllib.parse import urlsplit

URL_LENGTH_MAX = 2_000

URL_FORM = (
    f"must be an address of up to {URL_LENGTH_MAX:,} ASCII characters such as "
    "https://game.example/path, without a name, password or fragment"
)


def valid_url(text: object) -> bool:
    """Whether a text is an HTTP address, without a name, password or fragment."""
    if not isinstance(text, str) or len(text) > URL_LENGTH_MAX:
        return False
    if not all("!" <= character <= "~" for character in text):
        return False
    try:
        parts = urlsplit(text)
        named = parts.hostname and parts.port != 0
    except ValueError:
        return False
    plain = parts.username is None and parts.password is None and "#" not in text
    return bool(named) and plain and parts.scheme in ("http", "https")


def host_of(url: str) -> str:
    """Return the host of an address, with its port if that is given."""
    return urlsplit(url).netloc
