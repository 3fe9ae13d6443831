-- 0010_time_corrections.sql
--
-- Why:      where the time was wrong, it goes back once, and facts are found by their time.
-- Locks:    whoever appends or reads waits until the functions are replaced, for a moment.
-- Undo:     not once the time was corrected; before, DROP TABLE rankd.time_corrections and make
--           rankd.append, rankd.read and rankd.windows again as 0002, 0003 and 0009 have them.

CREATE TABLE rankd.time_corrections (
    position bigint      PRIMARY KEY,
    at       timestamptz NOT NULL
);
COMMENT ON TABLE rankd.time_corrections IS 'Where ledger time went back, because it had been wrong, and to when.';
COMMENT ON COLUMN rankd.facts.at IS 'The ledger''s time: goes back only at a position in time_corrections.';

-- As 0002_append.sql has it, but for the time of an append that begins with a correction.
CREATE OR REPLACE FUNCTION rankd.append(
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

-- The facts after a position, oldest first, as 0003_read.sql has it. Between two corrections of the
-- time the order of times is that of positions, so one such stretch is read after another; facts of
-- another stretch with the same times are left out by their positions.
CREATE OR REPLACE FUNCTION rankd.read(p_after bigint, p_limit bigint)
RETURNS TABLE ("position" bigint, at timestamptz, kind text, body bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_sort = off
AS $$
DECLARE
    v_from  timestamptz;
    v_until timestamptz;
    v_next  bigint;
    v_many  bigint;
BEGIN
    LOOP
        SELECT appends.at INTO v_from
          FROM rankd.appends AS appends
         WHERE appends.last > p_after
         ORDER BY appends.last
         LIMIT 1;
        EXIT WHEN NOT FOUND;
        SELECT min(corrections.position) INTO v_next
          FROM rankd.time_corrections AS corrections
         WHERE corrections.position > p_after + 1;
        SELECT appends.at INTO STRICT v_until
          FROM rankd.appends AS appends
         WHERE v_next IS NULL OR appends.last < v_next
         ORDER BY appends.last DESC
         LIMIT 1;
        RETURN QUERY
        SELECT facts.position, facts.at, facts.kind, facts.body
          FROM rankd.facts AS facts
         WHERE facts.at >= v_from
           AND facts.at <= v_until
           AND (facts.at, facts.position) > (v_from, p_after)
           AND facts.position > p_after
           AND (v_next IS NULL OR facts.position < v_next)
         ORDER BY facts.at, facts.position
         LIMIT p_limit;
        GET DIAGNOSTICS v_many = ROW_COUNT;
        p_limit := p_limit - v_many;
        EXIT WHEN v_next IS NULL OR p_limit <= 0;
        p_after := v_next - 1;
    END LOOP;
END
$$;

-- As 0009_sealed_position.sql has it, with the windows that corrections tell, and without turns by a
-- wrong time, or of nodes that had not heard of its correction.
CREATE OR REPLACE VIEW rankd.windows AS
WITH corrections AS (
    SELECT facts.board, (facts.details ->> 'since')::bigint AS first, facts.position, facts.at,
           facts.actor, facts.details,
           (SELECT max(defined.position)
              FROM rankd.facts AS defined
             WHERE defined.scores IS NULL AND defined.delta IS NULL
               AND defined.kind LIKE 'board\_defined.%'
               AND defined.board = facts.board AND defined.position < facts.position) AS definition
      FROM rankd.facts AS facts
     WHERE facts.scores IS NULL AND facts.delta IS NULL
       AND facts.kind LIKE 'windows\_corrected.%'),
right_facts AS (
    SELECT facts.*
      FROM rankd.facts AS facts
     WHERE facts.scores IS NULL AND facts.delta IS NULL
       AND (facts.window_id IS NOT NULL OR facts.kind LIKE 'board\_defined.%')
       AND NOT EXISTS (
           SELECT FROM corrections
            WHERE corrections.board = facts.board
              AND facts.position >= corrections.first
              AND (facts.position < corrections.position
                   OR facts.window_id IS NOT NULL
                   AND coalesce((facts.details ->> 'since')::bigint, 0) < corrections.position))),
told AS (
    SELECT facts.board, facts.window_id,
           coalesce(corrections.definition, (facts.details ->> 'since')::bigint) AS since,
           split_part(facts.kind, '.', 1) AS what, facts.position, facts.at, facts.actor,
           facts.details ->> 'start' AS start_at, facts.details ->> 'end' AS end_at
      FROM right_facts AS facts
      LEFT JOIN corrections
        ON corrections.board = facts.board
       AND corrections.position = (facts.details ->> 'since')::bigint
     WHERE facts.window_id IS NOT NULL
     UNION ALL
    SELECT facts.board, opened ->> 'window', facts.position,
           'window_opened', facts.position, facts.at, facts.actor,
           opened ->> 'start', opened ->> 'end'
      FROM right_facts AS facts
     CROSS JOIN LATERAL json_array_elements(facts.details -> 'windows') AS opened
     WHERE facts.window_id IS NULL
     UNION ALL
    SELECT corrections.board, opened ->> 'window', corrections.definition,
           'window_opened', corrections.position, corrections.at, corrections.actor,
           opened ->> 'start', opened ->> 'end'
      FROM corrections
     CROSS JOIN LATERAL json_array_elements(corrections.details -> 'windows') AS opened
     UNION ALL
    SELECT corrections.board, sealed ->> 'window',
           (SELECT max(defined.position)
              FROM rankd.facts AS defined
             WHERE defined.scores IS NULL AND defined.delta IS NULL
               AND defined.kind LIKE 'board\_defined.%'
               AND defined.board = corrections.board
               AND defined.position < (sealed ->> 'through')::bigint),
           'window_sealed',
           -- A window that was dropped by the wrong time, and closed before it, is what it was.
           CASE WHEN (sealed ->> 'through')::bigint < corrections.first
                THEN (sealed ->> 'through')::bigint
                ELSE corrections.position END,
           'epoch'::timestamptz + (sealed ->> 'at')::bigint * interval '1 microsecond',
           corrections.actor, sealed ->> 'start', sealed ->> 'end'
      FROM corrections
     CROSS JOIN LATERAL json_array_elements(corrections.details -> 'closed') AS sealed),
found AS (
    SELECT board, window_id, coalesce(since, 0) AS since,
           'epoch'::timestamptz + max(start_at)::bigint * interval '1 microsecond' AS starts,
           'epoch'::timestamptz + max(end_at)::bigint * interval '1 microsecond' AS ends,
           min(at) FILTER (WHERE what = 'window_opened') AS opened_at,
           min(at) FILTER (WHERE what = 'window_sealed') AS sealed_at,
           min(position) FILTER (WHERE what = 'window_sealed') AS sealed_position,
           min(at) FILTER (WHERE what = 'window_dropped') AS dropped_at
      FROM told
     GROUP BY board, window_id, coalesce(since, 0)),
definitions AS (
    SELECT board, position AS since,
           lead(position) OVER following AS next_position,
           lead(at) OVER following AS next_at,
           lead(kind) OVER following LIKE 'board\_defined.%' AS redefined
      FROM rankd.facts
     WHERE scores IS NULL AND delta IS NULL
       AND (kind LIKE 'board\_defined.%' OR kind LIKE 'board\_retired.%')
    WINDOW following AS (PARTITION BY board ORDER BY position)),
closed AS (
    SELECT found.board, found.window_id, found.since, definitions.next_at, definitions.next_position
      FROM found
      JOIN definitions USING (board, since)
      LEFT JOIN found AS going_on
        ON going_on.board = found.board AND going_on.window_id = found.window_id
       AND going_on.since = definitions.next_position AND going_on.opened_at = definitions.next_at
     WHERE definitions.redefined AND found.opened_at IS NOT NULL
       AND found.sealed_position IS NULL AND going_on.board IS NULL)
SELECT found.board, found.window_id, found.since, found.starts, found.ends, found.opened_at,
       coalesce(found.sealed_at, closed.next_at) AS sealed_at,
       coalesce(found.sealed_position, closed.next_position) AS sealed_position,
       found.dropped_at
  FROM found
  LEFT JOIN closed USING (board, window_id, since);
COMMENT ON COLUMN rankd.windows.sealed_position IS 'Position of the fact that closed the window: of its own, of a definition that left it out, or of a correction of the time. JOIN rankd.sealed_windows USING (board, window_id, sealed_position).';
