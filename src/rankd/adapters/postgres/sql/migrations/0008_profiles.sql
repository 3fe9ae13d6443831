-- 0008_profiles.sql
--
-- Why:      a profile may be changed in part: facts that set a name or attributes alone are new.
-- Locks:    nobody waits; an append that is under way ends with the function it began with.
-- Undo:     make rankd.project again as 0002_append.sql has it, if none of these facts is there yet.

-- Carry players on over the facts that tell of them. Whoever is told nothing new is left alone:
-- a game may send a player's region along with every score.
CREATE OR REPLACE FUNCTION rankd.project(
    p_after bigint, p_kinds text[], p_players text[], p_details text[], p_telling boolean[]
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_told       record;
    v_before     record;
    v_known      boolean;
    v_name       text;
    v_attributes jsonb;
    v_friends    jsonb;
BEGIN
    FOR v_told IN
        WITH told AS MATERIALIZED (
             SELECT p_after + given.place AS position, split_part(given.kind, '.', 1) AS kind,
                    given.player, coalesce(given.details, '{}')::jsonb AS details
               FROM unnest(p_kinds, p_players, p_details, p_telling) WITH ORDINALITY
                    AS given (kind, player, details, telling, place)
              WHERE given.telling),
        touched AS (
             SELECT DISTINCT told.player
               FROM told
               LEFT JOIN LATERAL (
                    SELECT players.attributes
                      FROM rankd.players AS players
                     WHERE players.player = told.player
                    OFFSET 0) AS known ON true
              WHERE told.kind <> 'score_submitted'
                 OR known.attributes IS NULL
                 OR NOT known.attributes @> (told.details -> 'attributes'))
        SELECT told.* FROM told JOIN touched USING (player) ORDER BY told.position
    LOOP
        IF v_told.kind = 'player_erased' THEN
            DELETE FROM rankd.players WHERE player = v_told.player;
            CONTINUE;
        END IF;
        SELECT name, attributes, friends INTO v_before
          FROM rankd.players WHERE player = v_told.player;
        v_known := FOUND;
        v_name := v_before.name;
        v_attributes := coalesce(v_before.attributes, '{}');
        v_friends := coalesce(v_before.friends, '[]');
        CASE v_told.kind
            WHEN 'score_submitted' THEN
                v_attributes := v_attributes || (v_told.details -> 'attributes');
            WHEN 'player_profiled' THEN
                v_name := v_told.details ->> 'name';
                v_attributes := coalesce(v_told.details -> 'attributes', '{}');
            WHEN 'name_set' THEN
                v_name := v_told.details ->> 'name';
            WHEN 'attributes_set' THEN
                v_attributes := coalesce(v_told.details -> 'attributes', '{}');
            WHEN 'friends_set' THEN
                v_friends := v_told.details -> 'friends';
        END CASE;
        IF NOT v_known OR v_name IS DISTINCT FROM v_before.name
           OR v_attributes <> v_before.attributes OR v_friends <> v_before.friends THEN
            INSERT INTO rankd.players (player, name, attributes, friends, position)
            VALUES (v_told.player, v_name, v_attributes, v_friends, v_told.position)
                ON CONFLICT (player) DO UPDATE
               SET name = excluded.name, attributes = excluded.attributes,
                   friends = excluded.friends, position = excluded.position;
        END IF;
    END LOOP;
END
$$;
