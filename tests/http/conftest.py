"""What tests over HTTP run under."""

import pytest

from rankd.api.server import new_event_loop

# They judge for many tests; what they found is worth showing.
pytest.register_assert_rewrite("tests.http.lanes", "tests.http.changes")

# libuv opens one pair of pipes with its first loop and keeps it for the life of the process. Opened
# here, it is not blamed on whichever test happens to be the first.
new_event_loop().close()
