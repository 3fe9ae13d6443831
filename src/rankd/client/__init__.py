"""The Python client of the service: ``Client``, and ``AsyncClient`` for an event loop.

``calls`` builds requests and reads results, ``responses`` decides on errors and retries; neither
touches a socket. The two classes connect them to a transport.
"""

from rankd.client.clients import AsyncClient, Client
from rankd.client.responses import RetryPolicy, ServiceError, Unreachable, service_error

__all__ = ["AsyncClient", "Client", "RetryPolicy", "ServiceError", "Unreachable", "service_error"]
