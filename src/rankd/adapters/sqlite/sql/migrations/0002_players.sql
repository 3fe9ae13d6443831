-- 0002_players.sql
--
-- Why:      players can be queried with SQLite.
-- Locks:    the file, while all facts are read once: some seconds for each ten million.
-- Undo:     DROP TABLE players; nothing but verify reads it.
--
-- migration.py fills it from the facts, and rehashes the keys of windows, which now include the
-- position at which their board began.

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
