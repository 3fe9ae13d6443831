-- The whole of it, as a new ledger gets it.
-- tests/migration proves that the migrations, applied in order, give exactly this.

-- Facts, many to a row: a row each costs five times as much to write (docs/decisions/0004).
-- Rows are added at the end and never changed.
CREATE TABLE block (
    last  INTEGER PRIMARY KEY,  -- position of its last fact: "after n" is then one step in the tree
    first INTEGER NOT NULL,     -- position of its first fact
    at    INTEGER NOT NULL,     -- microseconds since 1970, UTC; never less than in the block before
    facts BLOB    NOT NULL,     -- see block.py
    link  BLOB    NOT NULL      -- SHA-256 over the previous link and everything in this row
) STRICT;

-- Which facts have a key. The key itself is in the fact; here is only a hash of board and key, eight
-- bytes that sort and compare cheaply. Two keys may share a hash: a lookup reads the facts at the
-- positions found and compares.
CREATE TABLE key (
    hash     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (hash, position)
) STRICT, WITHOUT ROWID;

-- Keys in the order in which they come, until they are moved to the key table (recent_keys.py): to
-- insert each there at once would write a page for nearly every key. One may be in both.
CREATE TABLE recent_key (
    position INTEGER PRIMARY KEY,
    hash     INTEGER NOT NULL
) STRICT;

-- The answers to submissions with a key. Not part of the chain: an answer can be folded again.
CREATE TABLE receipt (
    position INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    checksum BLOB NOT NULL      -- of position and body, so that verify finds a changed one
) STRICT;

-- Players as the facts define them: profiles, friends, and the attributes that came with scores. A
-- projection for SQL queries: players.py writes it with the facts, and verify compares the two. A
-- player without a profile, friends and attributes has no row, nor has one that was erased.
CREATE TABLE players (
    player     TEXT    PRIMARY KEY,  -- the id that submissions name
    name       TEXT,                 -- what to show; NULL if its profile has none
    attributes TEXT    NOT NULL,     -- a JSON object: attributes ->> '$.region'
    friends    TEXT    NOT NULL,     -- a JSON array of players' ids: json_each(friends)
    position   INTEGER NOT NULL      -- of the last fact that changed anything of this
) STRICT, WITHOUT ROWID;
