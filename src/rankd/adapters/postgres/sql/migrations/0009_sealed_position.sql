-- 0009_sealed_position.sql
--
-- Why:      closed windows could not be joined with their archives: since is the definition's
--           position in boards and windows, and the closing's in sealed_windows and
--           sealed_standings, under one comment.
-- Locks:    whoever archives a closed window waits for a moment; sealed_windows has a row each.
-- Undo:     make rankd.windows again as 0004_views.sql has it;
--           ALTER TABLE rankd.sealed_windows DROP COLUMN sealed_position.

COMMENT ON COLUMN rankd.sealed_standings.since IS 'Position of the fact that closed the window, as in sealed_windows; not the since of windows and boards.';
COMMENT ON COLUMN rankd.sealed_windows.since IS 'Position of the fact that closed the window, as in sealed_standings; not the since of windows and boards.';

ALTER TABLE rankd.sealed_windows
    ADD COLUMN sealed_position bigint NOT NULL GENERATED ALWAYS AS (since) STORED;
COMMENT ON COLUMN rankd.sealed_windows.sealed_position IS 'The same under the name that windows has for it: JOIN rankd.windows USING (board, window_id, sealed_position).';
COMMENT ON COLUMN rankd.sealed_windows.total IS 'How many places the window has.';

-- A window that the next definition does not take over was closed by that definition.
CREATE OR REPLACE VIEW rankd.windows AS
WITH told AS (
    SELECT board, window_id, (details ->> 'since')::bigint AS since,
           split_part(kind, '.', 1) AS what, position, at, actor,
           details ->> 'start' AS start_at, details ->> 'end' AS end_at
      FROM rankd.facts
     WHERE scores IS NULL AND delta IS NULL AND window_id IS NOT NULL
     UNION ALL
    SELECT facts.board, opened ->> 'window', facts.position,
           'window_opened', facts.position, facts.at, facts.actor,
           opened ->> 'start', opened ->> 'end'
      FROM rankd.facts AS facts
     CROSS JOIN LATERAL json_array_elements(facts.details -> 'windows') AS opened
     WHERE facts.scores IS NULL AND facts.delta IS NULL AND facts.kind LIKE 'board\_defined.%'),
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
COMMENT ON COLUMN rankd.windows.since IS 'Position of the definition that the window is of, as in boards: a board that is redefined goes on in rows of its own.';
COMMENT ON COLUMN rankd.windows.sealed_position IS 'Position of the fact that closed the window: of its own, or of a definition that left it out. JOIN rankd.sealed_windows USING (board, window_id, sealed_position).';
