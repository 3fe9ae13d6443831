-- 0011_facts_of_players.sql
--
-- Why:      the facts of one player are found without reading the ledger.
-- Locks:    appends, while the index is built: some two seconds for each million facts. To avoid
--           that, build the same index on each partition beforehand; it is taken over:
--           CREATE INDEX CONCURRENTLY ON rankd.facts_2026_11 (hashtext(player), position);
-- Undo:     DROP FUNCTION rankd.facts_of; DROP INDEX rankd.facts_of_players.

-- Hashes of four bytes: with ids the index is half as large again, and so is what an append writes.
-- New partitions get it from here: rankd.cover copies the indexes of this table.
CREATE INDEX facts_of_players
    ON rankd.facts (hashtext(player), position);

-- The facts of a player between two positions. Each partition is read in the order of its index, and
-- only as far as the limit needs: a plan that sorts would read all facts of the player.
CREATE FUNCTION rankd.facts_of(
    p_player text, p_board text, p_after bigint, p_before bigint, p_limit bigint, p_newest boolean
)
RETURNS TABLE ("position" bigint, at timestamptz, kind text, body bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $$
BEGIN
    IF p_newest THEN
        RETURN QUERY
        SELECT facts.position, facts.at, facts.kind, facts.body
          FROM rankd.facts AS facts
         WHERE hashtext(facts.player) = hashtext(p_player)
           AND facts.player = p_player
           AND facts.position > p_after
           AND facts.position < p_before
           AND (p_board IS NULL OR facts.board = p_board)
         ORDER BY facts.position DESC
         LIMIT p_limit;
    ELSE
        RETURN QUERY
        SELECT facts.position, facts.at, facts.kind, facts.body
          FROM rankd.facts AS facts
         WHERE hashtext(facts.player) = hashtext(p_player)
           AND facts.player = p_player
           AND facts.position > p_after
           AND facts.position < p_before
           AND (p_board IS NULL OR facts.board = p_board)
         ORDER BY facts.position
         LIMIT p_limit;
    END IF;
END
$$;
COMMENT ON FUNCTION rankd.facts_of IS 'The facts about a player, of one board or of all (NULL), with their bytes.';
