-- 0005_books.sql
--
-- Why:      a node whose index is in Redis needs boards, windows and players as they are at a position,
--           and should not have to read every fact for that.
-- Locks:    nobody waits.
-- Undo:     DROP TABLE rankd.book_parts, rankd.books. Nothing is lost: everything here follows from facts.

CREATE TABLE rankd.books (
    position bigint PRIMARY KEY,
    node     text NOT NULL,
    begun    timestamptz NOT NULL DEFAULT clock_timestamp(),
    parts    integer,
    digest   bytea
);
COMMENT ON TABLE rankd.books IS 'Copies of what the facts up to a position say of boards, windows and players, for nodes that start. The newest few.';
COMMENT ON COLUMN rankd.books.node IS 'Who made it.';
COMMENT ON COLUMN rankd.books.parts IS 'How many there are; none while it is being written, or if its writer did not live to end it.';
COMMENT ON COLUMN rankd.books.digest IS 'SHA-256 over its parts, each behind its length.';

CREATE TABLE rankd.book_parts (
    position bigint  NOT NULL REFERENCES rankd.books ON DELETE CASCADE,
    part     integer NOT NULL,
    body     bytea   NOT NULL,
    PRIMARY KEY (position, part)
);
COMMENT ON TABLE rankd.book_parts IS 'What such a copy consists of.';
