"""The HTTP interface: two lanes, one table of routes, one handler for each route.

``connection`` enforces limits and deadlines, then one of two lanes answers the request. Most
requests for hot routes are complete in one read; ``fast_lane`` answers them without a task. All
others take uvicorn's parser and the ASGI application in ``app``. Both lanes use the same
``routes``, call the same handlers with the same ``messages`` types and write the same bytes, which
``tests/http`` verifies.
"""
