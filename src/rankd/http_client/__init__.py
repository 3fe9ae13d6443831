"""An HTTP/1.1 client: a codec, a transport for threads, and one for the tasks of an event loop.

It follows no redirects and stores no cookies. The Python client of the service uses it, and the
service itself, to fetch the keys that verify tokens.
"""
