"""The index in Redis or Valkey: shared by every node, and never the truth.

In the order in which they are best read:

    lua/partition.lua  what a partition keeps, key by key
    lua/apply.lua      one piece of an apply, in turn and once
    lua/fill.lua       entries as they are, where nobody reads yet
    lua/read.lua       questions, all as of one position
    names.py           how rankings, players and epochs are called there
    packing.py         what goes to a script and comes back from it
    tally.py           ranks at each move's own moment, from counts made before all of them
    questions.py       what is asked of a partition, and what it says of an earlier position
    search.py          who is at a rank, over several partitions
    address.py         a URL, read
    link.py            connections, scripts, time-outs, and the vendor's errors
    epoch.py           which of several indexes lives: pointer, rebuilding, sweeping
    applying.py        from moves to pieces, and from their answers to ranks
    filling.py         one epoch, as scripts are sent to it
    copying.py         from an index in this process, entry by entry
    reading.py         reads over all partitions, as of one position
    index.py           the port's promises
    examination.py     what a server is like, for the doctor
"""

from rankd.adapters.redis.examination import examine
from rankd.adapters.redis.index import RedisIndex

__all__ = ["RedisIndex", "examine"]
