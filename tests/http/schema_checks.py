"""What schemathesis checks beside its own: it imports this in its process."""

from typing import Any

import schemathesis


@schemathesis.check
def told_by_its_own_status(ctx: Any, response: Any, case: Any) -> None:
    """What is told by ``default`` is for people: a program is told every status that it can meet.

    And each code comes with the status that the route declares for it.
    """
    del ctx
    if response.request.method == "OPTIONS":  # Of every path, and described nowhere.
        return
    described = case.operation.definition.raw
    status = str(response.status_code)
    assert status in described["responses"], f"{status} is told by default only"
    if response.status_code >= 400:
        codes = described.get("x-codes", {})
        declared = {code: status for status, some in codes.items() for code in some}
        assert declared.get(response.json()["code"], status) == status


@schemathesis.check
def no_mistake_of_ours(ctx: Any, response: Any, case: Any) -> None:
    """A server error is a mistake, but for a position that is waited for and does not come."""
    del ctx, case
    if response.status_code >= 500:
        assert (response.status_code, response.json()["code"]) == (503, "index_behind")
