-- 0003_read.sql
--
-- Why:      to read on is what every follower does all the time.
-- Locks:    nobody waits.
-- Undo:     DROP FUNCTION rankd.read.

-- The facts after a position, oldest first. The append that holds the next one tells from which time
-- on to look, so that no partition before it is touched; partitions come in the order of time, so
-- that none after the last is.
CREATE FUNCTION rankd.read(p_after bigint, p_limit bigint)
RETURNS TABLE ("position" bigint, at timestamptz, kind text, body bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_sort = off
AS $$
DECLARE
    v_from timestamptz;
BEGIN
    SELECT appends.at INTO v_from
      FROM rankd.appends AS appends
     WHERE appends.last > p_after
     ORDER BY appends.last
     LIMIT 1;
    IF FOUND THEN
        RETURN QUERY
        SELECT facts.position, facts.at, facts.kind, facts.body
          FROM rankd.facts AS facts
         WHERE facts.at >= v_from
           AND (facts.at, facts.position) > (v_from, p_after)
         ORDER BY facts.at, facts.position
         LIMIT p_limit;
    END IF;
END
$$;
COMMENT ON FUNCTION rankd.read IS 'The facts after a position, in order, with their bytes.';
