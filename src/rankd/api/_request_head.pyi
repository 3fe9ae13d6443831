"""The native parser of request heads; see request_head.py."""

from rankd.api.request_head import RequestHead

def parse_head(data: bytes, bytes_max: int, headers_max: int) -> RequestHead | None:
    """Return the head at the start of these bytes; None if incomplete or in doubt."""
