"""The Python client of the service: ``Client``, and ``AsyncClient`` for those with an event loop.

``calls`` says what is asked and how the answer is read, ``answers`` what an answer or its absence
means: neither touches a socket. The two classes only carry between them and the network.
"""

from rankd.client.answers import Policy, Told, Unreachable, told
from rankd.client.asynchronous import AsyncClient
from rankd.client.synchronous import Client

__all__ = ["AsyncClient", "Client", "Policy", "Told", "Unreachable", "told"]
