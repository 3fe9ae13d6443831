-- 0002_append.sql
--
-- Why:      an append is one question to the server, so that no lock waits for a network.
-- Locks:    nobody waits.
-- Undo:     DROP FUNCTION rankd.append, rankd.settle, rankd.used, rankd.digest, rankd.project,
--           rankd.keep, rankd.cover.
--
-- PL/pgSQL keeps the plans of these statements for each connection of the server, so they cost the
-- same with and without prepared statements: through a pooler, that is. A plan that was made while
-- a table was small must serve when it is large: hence no sequential scans, and lookups that are
-- written so that they can only be done row by row, by the index. jit would compile for
-- milliseconds what runs for microseconds.

-- Make the partition of the month and of three more ahead. Only under the head's lock.
-- To attach a table lets readers and writers go on, also a dump that takes hours; to create it as a
-- partition would not.
CREATE FUNCTION rankd.cover(p_at timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_first  timestamp := date_trunc('month', p_at AT TIME ZONE 'UTC');
    v_begin  timestamp;
    v_end    timestamp;
    v_table  text;
    v_head   record;
BEGIN
    SELECT * INTO STRICT v_head FROM rankd.head FOR UPDATE;
    FOR v_ahead IN 0..3 LOOP
        v_begin := v_first + make_interval(months => v_ahead);
        v_end := v_first + make_interval(months => v_ahead + 1);
        v_table := format('%I.%I', 'rankd', 'facts_' || to_char(v_begin, 'YYYY_MM'));
        IF to_regclass(v_table) IS NULL THEN
            EXECUTE format('CREATE TABLE %s (LIKE rankd.facts INCLUDING ALL)', v_table);
            EXECUTE format(
                'ALTER TABLE rankd.facts ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
                v_table,
                to_char(v_begin, 'YYYY-MM-DD') || 'T00:00:00Z',
                to_char(v_end, 'YYYY-MM-DD') || 'T00:00:00Z');
        END IF;
    END LOOP;
    IF v_first AT TIME ZONE 'UTC' BETWEEN v_head.covered_from AND v_head.covered_until THEN
        UPDATE rankd.head
           SET covered_until = greatest(covered_until, v_end AT TIME ZONE 'UTC')
         WHERE covered_until < v_end AT TIME ZONE 'UTC';
    ELSE
        UPDATE rankd.head
           SET covered_from = v_first AT TIME ZONE 'UTC', covered_until = v_end AT TIME ZONE 'UTC';
    END IF;
    DELETE FROM rankd.tombstones WHERE at < clock_timestamp() - interval '30 days';
END
$$;
COMMENT ON FUNCTION rankd.cover IS 'Makes the partitions of facts for a month and three more.';

-- Which of the names, given in columns, are in the ledger, and what was answered then.
CREATE FUNCTION rankd.used(p_boards text[], p_keys text[])
RETURNS TABLE (place bigint, first_at bigint, fingerprint bytea, receipt bytea)
LANGUAGE sql STABLE
AS $$
    SELECT given.place, found.position, found.fingerprint, kept.body
      FROM unnest(p_boards, p_keys) WITH ORDINALITY AS given (board, key, place)
     CROSS JOIN LATERAL (
           SELECT keys.position, keys.fingerprint
             FROM rankd.keys AS keys
            WHERE keys.board = given.board AND keys.key = given.key
           OFFSET 0) AS found
      LEFT JOIN LATERAL (
           SELECT receipts.body
             FROM rankd.receipts AS receipts
            WHERE receipts.position = found.position
           OFFSET 0) AS kept ON true
$$;

-- What the hash chain takes of facts: each kind and each body behind its length.
CREATE FUNCTION rankd.digest(p_kinds text[], p_bodies bytea[]) RETURNS bytea
LANGUAGE sql STABLE
AS $$
    SELECT sha256(string_agg(
               int4send(octet_length(given.kind)) || convert_to(given.kind, 'UTF8')
               || int4send(octet_length(given.body)) || given.body,
               ''::bytea ORDER BY given.place))
      FROM unnest(p_kinds, p_bodies) WITH ORDINALITY AS given (kind, body, place)
$$;

-- Carry players on over the facts that tell of them. Whoever is told nothing new is left alone:
-- a game may send a player's region along with every score.
CREATE FUNCTION rankd.project(
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

-- Keep receipts; the first of a position stands. What an append still lacks is counted down.
CREATE FUNCTION rankd.keep(p_positions bigint[], p_bodies bytea[], p_checksums bytea[])
RETURNS void
LANGUAGE sql
AS $$
    WITH kept AS (
         INSERT INTO rankd.receipts (position, body, checksum)
         SELECT given.position, given.body, given.checksum
           FROM unnest(p_positions, p_bodies, p_checksums) AS given (position, body, checksum)
             ON CONFLICT DO NOTHING
         RETURNING receipts.position),
    earned AS (
         SELECT appends.last, count(*)::integer AS many
           FROM kept
          CROSS JOIN LATERAL (
                SELECT appends.last
                  FROM rankd.appends AS appends
                 WHERE appends.last >= kept.position
                 ORDER BY appends.last
                 LIMIT 1) AS appends
          GROUP BY appends.last)
    UPDATE rankd.appends AS appends
       SET lacking = greatest(appends.lacking - earned.many, 0)
      FROM earned
     WHERE appends.last = earned.last
$$;

-- Append facts, given in columns, as one. No two of them have one key. Returns NULL if p_after is
-- not the head; otherwise, as JSON, where the new ones are, and for each that was left out, because
-- its key had been used, who was first.
CREATE FUNCTION rankd.append(
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
    p_telling      boolean[],    -- which tell of players
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
    v_head.at := greatest(v_head.at, v_at);
    v_at := greatest(v_head.at, p_now);

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
               array_agg(details ORDER BY place), array_agg(telling ORDER BY place),
               count(*)
          INTO p_kinds, p_bodies, p_boards, p_players, p_keys, p_fingerprints,
               p_scores, p_deltas, p_windows, p_actors, p_details, p_telling, v_many
          FROM unnest(p_kinds, p_bodies, p_boards, p_players, p_keys, p_fingerprints,
                      p_scores, p_deltas, p_windows, p_actors, p_details, p_telling)
               WITH ORDINALITY AS given (kind, body, board, player, key, fingerprint,
                                         score, delta, window_id, actor, details, telling, place)
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
        IF true = ANY (p_telling) THEN
            PERFORM rankd.project(v_last, p_kinds, p_players, p_details, p_telling);
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
COMMENT ON FUNCTION rankd.append IS 'The only way in.';

-- Find out what became of an append whose answer was lost. If it is in the ledger, answer as it did;
-- otherwise see to it that it never will be, and return NULL. The names are those of its facts.
CREATE FUNCTION rankd.settle(p_id uuid, p_patience text, p_boards text[], p_keys text[])
RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $$
DECLARE
    v_head   record;
    v_append record;
    v_uses   json;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    PERFORM set_config('lock_timeout', p_patience, true);
    -- If the lost append runs still, this waits for it; if it has not come so far, it finds the
    -- tombstone.
    SELECT * INTO STRICT v_head FROM rankd.head FOR UPDATE;
    SELECT * INTO v_append FROM rankd.appends WHERE id = p_id;
    IF NOT FOUND THEN
        INSERT INTO rankd.tombstones (id) VALUES (p_id) ON CONFLICT DO NOTHING;
        RETURN NULL;
    END IF;
    SELECT json_agg(json_build_array(
               used.place - 1, used.first_at,
               translate(encode(used.fingerprint, 'base64'), E'\n', ''),
               translate(encode(used.receipt, 'base64'), E'\n', '')))
      INTO v_uses
      FROM rankd.used(p_boards, p_keys) AS used
     WHERE used.first_at < v_append.first;
    RETURN json_build_object(
        'first', v_append.first, 'last', v_append.last,
        'at', (extract(epoch FROM v_append.at) * 1000000)::bigint,
        'link', encode(v_append.link, 'base64'), 'uses', coalesce(v_uses, '[]'));
END
$$;
