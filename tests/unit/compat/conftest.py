"""What tests of the interfaces run under."""

from rankd.api.server import new_event_loop

# libuv opens one pair of pipes with its first loop and keeps it for the life of the process.
new_event_loop().close()
