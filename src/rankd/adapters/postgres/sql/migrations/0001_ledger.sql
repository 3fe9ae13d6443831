-- 0001_ledger.sql
--
-- Why:      the first ledger in PostgreSQL.
-- Locks:    everything is new; nobody waits.
-- Undo:     DROP SCHEMA rankd CASCADE.
--
-- The schema is called rankd here; another name is put in its place when the file is read.
-- Ids compare by their bytes (COLLATE "C"): the same on every system, and after its upgrades.

CREATE TABLE rankd.schema_version (
    version    integer     PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rankd.schema_version IS 'The migrations that were applied; the largest is the version.';

-- Whoever appends locks this row to the end of its transaction: so positions are given in the order
-- of commits, and none appears behind a reader. It is locked and hardly ever written: a row that
-- changed with every append would leave a trail of versions behind, which each append had to walk
-- for as long as somebody (a dump, a report) still looks at an old one.
CREATE TABLE rankd.head (
    one           boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at            timestamptz NOT NULL,  -- of an append that brought nothing new, if it was the latest
    covered_from  timestamptz NOT NULL,  -- the months from here on,
    covered_until timestamptz NOT NULL   -- up to here, have their partition of facts
);
INSERT INTO rankd.head (at, covered_from, covered_until) VALUES ('epoch', 'epoch', 'epoch');
COMMENT ON TABLE rankd.head IS 'One row, locked by whoever appends.';

-- Facts, a row each, a partition for each month. In the order of (at, position), which is that of
-- positions too, since time never goes back; so that reading on touches only the months it reaches.
CREATE TABLE rankd.facts (
    position  bigint      NOT NULL,
    at        timestamptz NOT NULL,
    kind      text        COLLATE "C" NOT NULL,
    board     text        COLLATE "C",
    player    text        COLLATE "C",
    key       text        COLLATE "C",
    scores    bigint[],
    delta     bigint,
    window_id text        COLLATE "C",
    actor     text        COLLATE "C",
    details   json,
    body      bytea       NOT NULL,
    PRIMARY KEY (at, position)
) PARTITION BY RANGE (at);
COMMENT ON TABLE rankd.facts IS 'Everything that happened, in order. body is the truth; the other columns say the same to people.';
COMMENT ON COLUMN rankd.facts.position IS 'The place in the ledger''s one order; the first is 1.';
COMMENT ON COLUMN rankd.facts.at IS 'The ledger''s time: never goes back.';
COMMENT ON COLUMN rankd.facts.kind IS 'What kind of fact, and its version: score_submitted.1';
COMMENT ON COLUMN rankd.facts.key IS 'The submission''s own key, under which its board counts it once.';
COMMENT ON COLUMN rankd.facts.scores IS 'One for each of the board''s columns, in whole units.';
COMMENT ON COLUMN rankd.facts.delta IS 'What was added, if it was an increment.';
COMMENT ON COLUMN rankd.facts.actor IS 'The name of the key that wrote it.';
COMMENT ON COLUMN rankd.facts.details IS 'What else the fact says. Times in it are microseconds since 1970.';
COMMENT ON COLUMN rankd.facts.body IS 'The fact''s exact bytes (MessagePack), which the hash chain is made over.';

-- Few, and what most questions about boards and windows need.
CREATE INDEX facts_other_than_scores
    ON rankd.facts (kind, position)
 WHERE scores IS NULL AND delta IS NULL;

CREATE TABLE rankd.appends (
    last    bigint      PRIMARY KEY,  -- "after n" is then one step in the tree
    first   bigint      NOT NULL,
    at      timestamptz NOT NULL,
    link    bytea       NOT NULL,
    id      uuid        NOT NULL UNIQUE,
    node    text        NOT NULL,
    lacking integer     NOT NULL CHECK (lacking >= 0)
);
COMMENT ON TABLE rankd.appends IS 'Which facts were appended together, one row for each append that brought any.';
COMMENT ON COLUMN rankd.appends.link IS 'The hash chain: SHA-256 over the link before, the positions, the time and the facts.';
COMMENT ON COLUMN rankd.appends.id IS 'What an append is looked up by whose answer was lost.';
COMMENT ON COLUMN rankd.appends.node IS 'Which process appended.';
COMMENT ON COLUMN rankd.appends.lacking IS 'How many of its submissions with a key have no receipt yet.';

CREATE INDEX appends_lacking_receipts
    ON rankd.appends (last)
 WHERE lacking > 0;

-- Appends that were given up: whoever comes with such an id, however late, is refused.
CREATE TABLE rankd.tombstones (
    id uuid        PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rankd.tombstones IS 'Appends that were given up. An append of this id is refused.';

CREATE TABLE rankd.keys (
    board       text   COLLATE "C" NOT NULL,
    key         text   COLLATE "C" NOT NULL,
    position    bigint NOT NULL,
    fingerprint bytea  NOT NULL,
    PRIMARY KEY (board, key)
);
COMMENT ON TABLE rankd.keys IS 'Where each key was used first. Windows have keys of their own, which begin with U+001F.';
COMMENT ON COLUMN rankd.keys.fingerprint IS 'What tells another submission under the same key; empty for windows.';

-- Apart from the keys: a receipt comes later, and to write it into a row of keys would write the
-- row again, and its place in the largest index.
CREATE TABLE rankd.receipts (
    position bigint PRIMARY KEY,
    body     bytea  NOT NULL,
    checksum bytea  NOT NULL
);
COMMENT ON TABLE rankd.receipts IS 'The answers to submissions with a key, to be given again.';

CREATE TABLE rankd.players (
    player     text   COLLATE "C" PRIMARY KEY,
    name       text,
    attributes jsonb  NOT NULL,
    friends    jsonb  NOT NULL,
    position   bigint NOT NULL
);
COMMENT ON TABLE rankd.players IS 'Who the players are, as the facts so far tell; no row for those of whom nothing but scores is known.';
COMMENT ON COLUMN rankd.players.attributes IS 'attributes ->> ''region''';
COMMENT ON COLUMN rankd.players.friends IS 'An array of players'' ids.';
COMMENT ON COLUMN rankd.players.position IS 'Of the last fact that changed anything of this.';

CREATE TABLE rankd.sealed_standings (
    board     text   COLLATE "C" NOT NULL,
    window_id text   COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    player    text   COLLATE "C" NOT NULL,
    rank      bigint NOT NULL,
    scores    bigint[] NOT NULL,
    metadata  json,
    PRIMARY KEY (board, window_id, since, player)
);
CREATE INDEX sealed_standings_by_rank
    ON rankd.sealed_standings (board, window_id, since, rank);
COMMENT ON TABLE rankd.sealed_standings IS 'The final standings of closed windows.';
COMMENT ON COLUMN rankd.sealed_standings.since IS 'Where the definition in force was recorded: under another, the same window may turn again.';
COMMENT ON COLUMN rankd.sealed_standings.rank IS 'As the board shows it: those who tie may share it.';
