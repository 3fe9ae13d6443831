-- 0001_ledger.sql
--
-- Why:      the first ledger.
-- Locks:    none: the file is new.
-- Undo:     remove the file.

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

-- The answers to submissions with a key. Not part of the chain: an answer can be folded again.
CREATE TABLE receipt (
    position INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    checksum BLOB NOT NULL      -- of position and body, so that verify finds a changed one
) STRICT;
