"""What schemathesis checks beside its own: it imports this in its process."""

from typing import Any

import schemathesis


@schemathesis.check
def no_mistake_of_ours(ctx: Any, response: Any, case: Any) -> None:
    """A server error is a mistake, but for a position that is waited for and does not come."""
    del ctx, case
    if response.status_code >= 500:
        assert (response.status_code, response.json()["code"]) == (503, "index_behind")
