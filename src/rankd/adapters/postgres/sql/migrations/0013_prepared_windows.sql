-- 0013_prepared_windows.sql
--
-- Why:      a rolling window that is prepared was shown like one that opened, also if it never did.
-- Locks:    whoever reads the view waits until it is replaced, for a moment.
-- Undo:     make rankd.windows again as 0010_time_corrections.sql has it.

-- As 0010_time_corrections.sql has it, without the windows that are only prepared.
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
       AND facts.kind NOT LIKE 'window\_prepared.%'
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
