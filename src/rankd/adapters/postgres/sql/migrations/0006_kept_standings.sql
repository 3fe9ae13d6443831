-- 0006_kept_standings.sql
--
-- Why:      readers are answered from here while the index is out of reach: of closed windows
--           exactly, of open ones from the top, as it was a moment ago.
-- Locks:    whoever archives a closed window waits while its rows are indexed; nobody else does.
-- Undo:     DROP TABLE rankd.top_lists, rankd.sealed_windows;
--           ALTER TABLE rankd.sealed_standings DROP COLUMN place, DROP COLUMN order_key.

-- Rows from before have neither, until a node that manages has looked at their window again.
ALTER TABLE rankd.sealed_standings
    ADD COLUMN place     bigint,
    ADD COLUMN order_key bytea;
COMMENT ON COLUMN rankd.sealed_standings.place IS 'Counted from 1, also among those who share a rank.';
COMMENT ON COLUMN rankd.sealed_standings.order_key IS 'The bytes whose plain comparison orders the rows.';

CREATE INDEX sealed_standings_by_place
    ON rankd.sealed_standings (board, window_id, since, place);
CREATE INDEX sealed_standings_by_order
    ON rankd.sealed_standings (board, window_id, since, order_key, player);

CREATE TABLE rankd.sealed_windows (
    board     text   COLLATE "C" NOT NULL,
    window_id text   COLLATE "C" NOT NULL,
    since     bigint NOT NULL,
    total     bigint NOT NULL,
    PRIMARY KEY (board, window_id, since)
);
COMMENT ON TABLE rankd.sealed_windows IS 'The closed windows whose final standings are all in sealed_standings, and how many they are.';

-- A row for each ranking, written whole every some seconds: so whoever reads it reads one moment.
CREATE TABLE rankd.top_lists (
    board      text        COLLATE "C" NOT NULL,
    window_id  text        COLLATE "C" NOT NULL,
    segment    text        COLLATE "C" NOT NULL,
    position   bigint      NOT NULL,
    total      bigint      NOT NULL,
    taken_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    players    json        NOT NULL,
    order_keys bytea       NOT NULL,
    metadata   json,
    PRIMARY KEY (board, window_id, segment)
);
COMMENT ON TABLE rankd.top_lists IS 'The first of each ranking as they were a moment ago, for readers while the index is out of reach.';
COMMENT ON COLUMN rankd.top_lists.segment IS 'As region:eu; empty for everybody.';
COMMENT ON COLUMN rankd.top_lists.position IS 'Where it was true.';
COMMENT ON COLUMN rankd.top_lists.total IS 'How many entries the whole ranking had.';
COMMENT ON COLUMN rankd.top_lists.players IS 'An array of players'' ids, best first.';
COMMENT ON COLUMN rankd.top_lists.order_keys IS 'The keys of their entries, end to end, all of one length.';
COMMENT ON COLUMN rankd.top_lists.metadata IS 'An array of what is shown beside each; null if nothing is.';
