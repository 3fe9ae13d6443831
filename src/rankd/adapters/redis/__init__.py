"""Rank index in Redis or Valkey, shared by every node and rebuildable from the ledger.

Suggested reading order:

    lua/partition.lua  keys of a partition, and helpers shared by the other scripts
    lua/apply.lua      takes one piece of an apply, in order and once
    lua/fill.lua       loads entries into a generation that is not read yet
    lua/read.lua       reads, all as of one position
    protocol.py        names of keys; arguments and replies of the scripts, as of a position
    client.py          URL, connections, scripts, time-outs, and translation of redis-py's errors
    generations.py     pointer to the live generation and its partitions; rebuild, takeover, sweep
    reads.py           reads over all partitions, as of one position; search for a rank
    writes.py          moves cut into pieces, and replies turned into ranks
    bulk_load.py       copy of an in-process index, entry by entry
    index.py           the RankIndex port
    doctor.py          server checks for ``rankd doctor``
"""

from rankd.adapters.redis.doctor import examine
from rankd.adapters.redis.index import RedisIndex

__all__ = ["RedisIndex", "examine"]
