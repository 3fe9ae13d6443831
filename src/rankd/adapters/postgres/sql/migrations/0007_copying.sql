-- 0007_copying.sql
--
-- Why:      a ledger that another is being copied into must not be taken for that other.
-- Locks:    nobody waits.
-- Undo:     DROP TABLE rankd.copying.

CREATE TABLE rankd.copying (
    one      boolean     PRIMARY KEY DEFAULT true CHECK (one),
    source   text        NOT NULL,
    begun_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE rankd.copying IS 'One row while the facts of another ledger are copied into this one, and when that was broken off; none otherwise.';
COMMENT ON COLUMN rankd.copying.source IS 'Where they come from.';
