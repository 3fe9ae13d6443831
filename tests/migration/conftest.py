"""What tests of migration run under."""

from rankd.api.server import new_event_loop

# libuv opens one pair of pipes with its first loop and keeps it for the life of the process. Opened
# here, it is not blamed on whichever test happens to be the first.
new_event_loop().close()
