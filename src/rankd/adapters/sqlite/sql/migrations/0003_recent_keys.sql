-- 0003_recent_keys.sql
--
-- Why:      keys are written in the order in which they come, and moved to their place later.
-- Locks:    nothing to speak of: the table begins empty.
-- Undo:     INSERT OR IGNORE INTO key SELECT hash, position FROM recent_key; DROP TABLE recent_key;

-- Keys in the order in which they come, until they are moved to the key table (recent_keys.py): to
-- insert each there at once would write a page for nearly every key. One may be in both.
CREATE TABLE recent_key (
    position INTEGER PRIMARY KEY,
    hash     INTEGER NOT NULL
) STRICT;
