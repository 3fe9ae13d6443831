-- 0002_players.sql
--
-- Why:      who the players are can be asked of SQLite.
-- Locks:    the file, while all facts are read once: some seconds for each ten million.
-- Undo:     DROP TABLE players; nothing but verify reads it.
--
-- migration.py fills it from the facts, and hashes the keys of windows anew: they are known by
-- where their board began, too.

-- Who the players are, as the facts so far tell: profiles, friends, and the attributes that came
-- with scores. A projection, for whoever asks with SQL; players.py writes it with the facts, and
-- verify compares it with them. A player of whom nothing but scores is known has no row, nor has
-- one that was erased.
CREATE TABLE players (
    player     TEXT    PRIMARY KEY,  -- the id that submissions name
    name       TEXT,                 -- what to show; NULL if its profile has none
    attributes TEXT    NOT NULL,     -- a JSON object: attributes ->> '$.region'
    friends    TEXT    NOT NULL,     -- a JSON array of players' ids: json_each(friends)
    position   INTEGER NOT NULL      -- of the last fact that changed anything of this
) STRICT, WITHOUT ROWID;
