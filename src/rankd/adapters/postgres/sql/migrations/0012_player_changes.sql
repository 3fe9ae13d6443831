-- 0012_player_changes.sql
--
-- Why:      the table of players knew each kind of fact; now nodes send what a fact changes.
-- Locks:    nobody waits; an append that is under way ends with the functions it began with.
-- Undo:     once no node of this version runs: DROP FUNCTION rankd.append_facts, make rankd.project
--           again as 0008_profiles.sql has it, and DROP FUNCTION rankd.change_players.

-- Apply changes of profiles to players, in order. A change is a JSON object of what does not stay:
-- "erased", "name", "attributes" (all of them) or "merged" (into the others), "friends". Only under
-- the head's lock. A row is written only if it differs: a game may send a player's region along with
-- every score.
CREATE FUNCTION rankd.change_players(p_after bigint, p_players text[], p_changes text[])
RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_next       record;
    v_before     record;
    v_known      boolean;
    v_name       text;
    v_attributes jsonb;
    v_friends    jsonb;
BEGIN
    FOR v_next IN
        WITH changes AS MATERIALIZED (
             SELECT p_after + given.place AS position, given.player, given.change::jsonb AS change
               FROM unnest(p_players, p_changes) WITH ORDINALITY AS given (player, change, place)
              WHERE given.change IS NOT NULL),
        touched AS (
             SELECT DISTINCT changes.player
               FROM changes
               LEFT JOIN LATERAL (
                    SELECT players.attributes
                      FROM rankd.players AS players
                     WHERE players.player = changes.player
                    OFFSET 0) AS known ON true
              WHERE changes.change - 'merged' <> '{}'
                 OR known.attributes IS NULL
                 OR NOT known.attributes @> (changes.change -> 'merged'))
        SELECT changes.* FROM changes JOIN touched USING (player) ORDER BY changes.position
    LOOP
        IF v_next.change ? 'erased' THEN
            DELETE FROM rankd.players WHERE player = v_next.player;
            CONTINUE;
        END IF;
        SELECT name, attributes, friends INTO v_before
          FROM rankd.players WHERE player = v_next.player;
        v_known := FOUND;
        v_name := CASE WHEN v_next.change ? 'name' THEN v_next.change ->> 'name'
                       ELSE v_before.name END;
        v_attributes := coalesce(v_next.change -> 'attributes', v_before.attributes, '{}')
                        || coalesce(v_next.change -> 'merged', '{}');
        v_friends := coalesce(v_next.change -> 'friends', v_before.friends, '[]');
        IF NOT v_known OR v_name IS DISTINCT FROM v_before.name
           OR v_attributes <> v_before.attributes OR v_friends <> v_before.friends THEN
            INSERT INTO rankd.players (player, name, attributes, friends, position)
            VALUES (v_next.player, v_name, v_attributes, v_friends, v_next.position)
                ON CONFLICT (player) DO UPDATE
               SET name = excluded.name, attributes = excluded.attributes,
                   friends = excluded.friends, position = excluded.position;
        END IF;
    END LOOP;
END
$$;

-- For nodes of schema 11 that go on running: rankd.append, which stays as it is for them, calls this
-- with the kinds of facts. They append these kinds and no other.
CREATE OR REPLACE FUNCTION rankd.project(
    p_after bigint, p_kinds text[], p_players text[], p_details text[], p_telling boolean[]
) RETURNS void
LANGUAGE sql
AS $$
    SELECT rankd.change_players(p_after, p_players, array_agg(
               CASE WHEN given.telling THEN
                   CASE split_part(given.kind, '.', 1)
                       WHEN 'player_erased' THEN '{"erased": true}'
                       WHEN 'score_submitted' THEN jsonb_build_object(
                           'merged', given.details::jsonb -> 'attributes')::text
                       WHEN 'player_profiled' THEN jsonb_build_object(
                           'name', given.details::jsonb -> 'name',
                           'attributes', coalesce(given.details::jsonb -> 'attributes', '{}'))::text
                       WHEN 'name_set' THEN jsonb_build_object(
                           'name', given.details::jsonb -> 'name')::text
                       WHEN 'attributes_set' THEN jsonb_build_object(
                           'attributes', coalesce(given.details::jsonb -> 'attributes', '{}'))::text
                       WHEN 'friends_set' THEN jsonb_build_object(
                           'friends', coalesce(given.details::jsonb -> 'friends', '[]'))::text
                   END
               END ORDER BY given.place))
      FROM unnest(p_kinds, p_details, p_telling)
           WITH ORDINALITY AS given (kind, details, telling, place);
$$;

-- As 0010_time_corrections.sql has rankd.append, but for the changes of players.
CREATE FUNCTION rankd.append_facts(
    p_id           uuid,
    p_node         text,
    p_patience     text,         -- how long to wait for the head, as lock_timeout has it
    p_now          timestamptz,
    p_after        bigint,
    p_digest       bytea,        -- rankd.digest of what follows, spared the time under the lock
    p_kinds        text[],
    p_bodies       bytea[],
    p_boards       text[],
    p_players      text[],
    p_keys         text[],
    p_fingerprints bytea[],      -- empty where the key is not a submission's
    p_scores       text[],       -- arrays in their text form: rows may differ in length
    p_deltas       bigint[],
    p_windows      text[],
    p_actors       text[],
    p_details      text[],
    p_changes      text[],       -- of the profiles of their players, as JSON
    p_kept         bigint[],     -- receipts
    p_receipts     bytea[],
    p_checksums    bytea[]
) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
    v_head  record;
    v_last  bigint;
    v_at    timestamptz;
    v_link  bytea;
    v_uses  json;
    v_many  integer := coalesce(cardinality(p_kinds), 0);
    v_lacks integer := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- What was committed while this waited for the head would not be seen.
        RAISE EXCEPTION 'rankd appends in transactions that are READ COMMITTED, not %',
              upper(current_setting('transaction_isolation')) USING ERRCODE = '25001';
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', p_patience, true);

    SELECT * INTO STRICT v_head FROM rankd.head FOR UPDATE;
    -- From here to the end of the transaction nobody else appends, or gives this append up.
    IF EXISTS (SELECT FROM rankd.tombstones WHERE id = p_id) THEN
        RAISE EXCEPTION 'this append was given up' USING ERRCODE = 'RK001';
    END IF;
    SELECT last, at, link INTO v_last, v_at, v_link FROM rankd.appends ORDER BY last DESC LIMIT 1;
    IF NOT FOUND THEN
        v_last := 0;
        v_at := 'epoch';
        v_link := '\x0000000000000000000000000000000000000000000000000000000000000000';
    END IF;
    IF p_after <> v_last THEN
        RETURN NULL;
    END IF;
    IF p_kinds[1] LIKE 'time\_corrected.%' THEN
        v_at := p_now;
        UPDATE rankd.head SET at = v_at;
        INSERT INTO rankd.time_corrections (position, at) VALUES (v_last + 1, v_at);
    ELSE
        v_head.at := greatest(v_head.at, v_at);
        v_at := greatest(v_head.at, p_now);
    END IF;

    IF p_keys IS NOT NULL THEN
        SELECT json_agg(json_build_array(
                   used.place - 1, used.first_at,
                   translate(encode(used.fingerprint, 'base64'), E'\n', ''),
                   translate(encode(used.receipt, 'base64'), E'\n', '')))
          INTO v_uses
          FROM rankd.used(p_boards, p_keys) AS used;
    END IF;
    IF v_uses IS NOT NULL THEN
        SELECT array_agg(kind ORDER BY place), array_agg(body ORDER BY place),
               array_agg(board ORDER BY place), array_agg(player ORDER BY place),
               array_agg(given.key ORDER BY place), array_agg(fingerprint ORDER BY place),
               array_agg(score ORDER BY place), array_agg(delta ORDER BY place),
               array_agg(window_id ORDER BY place), array_agg(actor ORDER BY place),
               array_agg(details ORDER BY place), array_agg(change ORDER BY place),
               count(*)
          INTO p_kinds, p_bodies, p_boards, p_players, p_keys, p_fingerprints,
               p_scores, p_deltas, p_windows, p_actors, p_details, p_changes, v_many
          FROM unnest(p_kinds, p_bodies, p_boards, p_players, p_keys, p_fingerprints,
                      p_scores, p_deltas, p_windows, p_actors, p_details, p_changes)
               WITH ORDINALITY AS given (kind, body, board, player, key, fingerprint,
                                         score, delta, window_id, actor, details, change, place)
         WHERE (SELECT true FROM rankd.keys AS keys
                 WHERE keys.board = given.board AND keys.key = given.key) IS NULL;
        p_digest := rankd.digest(p_kinds, p_bodies);
    END IF;

    IF v_many > 0 THEN
        IF v_at < v_head.covered_from OR v_at >= v_head.covered_until THEN
            PERFORM rankd.cover(v_at);
        END IF;
        INSERT INTO rankd.facts (position, at, kind, board, player, key, scores, delta,
                                 window_id, actor, details, body)
        SELECT v_last + place, v_at, kind, board, player,
               CASE WHEN octet_length(fingerprint) > 0 THEN given.key END,
               score::bigint[], delta, window_id, actor, details::json, body
          FROM unnest(p_kinds, p_bodies, p_boards, p_players, p_keys, p_fingerprints,
                      p_scores, p_deltas, p_windows, p_actors, p_details)
               WITH ORDINALITY AS given (kind, body, board, player, key, fingerprint,
                                         score, delta, window_id, actor, details, place);
        IF p_keys IS NOT NULL THEN
            -- In the order of the index, so that neighbours in the tree are written together.
            INSERT INTO rankd.keys (board, key, position, fingerprint)
            SELECT board, given.key, v_last + place, fingerprint
              FROM unnest(p_boards, p_keys, p_fingerprints)
                   WITH ORDINALITY AS given (board, key, fingerprint, place)
             WHERE given.key IS NOT NULL
             ORDER BY board COLLATE "C", given.key COLLATE "C";
            SELECT count(*) INTO v_lacks
              FROM unnest(p_fingerprints) AS fingerprint
             WHERE octet_length(fingerprint) > 0;
        END IF;
        IF cardinality(array_remove(p_changes, NULL)) > 0 THEN
            PERFORM rankd.change_players(v_last, p_players, p_changes);
        END IF;
        v_link := sha256(
            v_link || int8send(v_last + 1) || int8send(v_last + v_many)
            || int8send((extract(epoch FROM v_at) * 1000000)::bigint) || p_digest);
        INSERT INTO rankd.appends (last, first, at, link, id, node, lacking)
        VALUES (v_last + v_many, v_last + 1, v_at, v_link, p_id, p_node, v_lacks);
        PERFORM pg_notify('rankd', (v_last + v_many)::text);
    ELSIF v_at > v_head.at THEN
        UPDATE rankd.head SET at = v_at;
    END IF;
    IF p_kept IS NOT NULL THEN
        PERFORM rankd.keep(p_kept, p_receipts, p_checksums);
    END IF;
    RETURN json_build_object(
        'first', v_last + 1, 'last', v_last + v_many,
        'at', (extract(epoch FROM v_at) * 1000000)::bigint,
        'link', encode(v_link, 'base64'), 'uses', coalesce(v_uses, '[]'));
END
$$;
COMMENT ON FUNCTION rankd.append_facts IS 'Appends facts, with the changes they make to players.';
COMMENT ON FUNCTION rankd.append IS 'Appends facts for nodes of schema 11.';
