"""The doors: HTTP in two lanes, one table of routes, one handler for each.

A request comes in at ``connection`` (limits and deadlines) and is answered by one of two lanes.
Most requests for hot routes are complete in one read and are answered on the spot by
``fastlane``. Everything else takes uvicorn's parser and the ASGI application in ``app``. Both
lanes use the same ``routes``, call the same handlers with the same ``exchange`` types, and write
the same bytes; ``tests/http`` holds them to it.
"""
