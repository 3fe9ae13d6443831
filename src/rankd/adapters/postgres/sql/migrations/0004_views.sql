-- 0004_views.sql
--
-- Why:      the questions an analyst begins with.
-- Locks:    nobody waits.
-- Undo:     DROP VIEW rankd.submissions, rankd.boards, rankd.windows.

CREATE VIEW rankd.submissions AS
SELECT position, at, board, player, scores, delta, key,
       details -> 'attributes' AS attributes,
       details -> 'metadata' AS metadata,
       details ->> 'build' AS build,
       details ->> 'run' AS run,
       'epoch'::timestamptz + (details ->> 'at')::bigint * interval '1 microsecond' AS client_at,
       actor
  FROM rankd.facts
 WHERE scores IS NOT NULL OR delta IS NOT NULL;
COMMENT ON VIEW rankd.submissions IS 'Every score that was submitted, whether or not it counted. Give a range of "at", and only its months are read.';
COMMENT ON COLUMN rankd.submissions.client_at IS 'When the client says it happened.';

CREATE VIEW rankd.boards AS
SELECT DISTINCT ON (board)
       board,
       details -> 'definition' AS definition,
       position AS since,
       at AS defined_at,
       actor,
       kind LIKE 'board\_retired.%' AS retired
  FROM rankd.facts
 WHERE scores IS NULL AND delta IS NULL
   AND (kind LIKE 'board\_defined.%' OR kind LIKE 'board\_retired.%')
 ORDER BY board, position DESC;
COMMENT ON VIEW rankd.boards IS 'The boards as they are defined now; a retired one has no definition.';
COMMENT ON COLUMN rankd.boards.since IS 'Position of the fact that made it what it is.';

CREATE VIEW rankd.windows AS
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
     WHERE facts.scores IS NULL AND facts.delta IS NULL AND facts.kind LIKE 'board\_defined.%')
SELECT board, window_id, coalesce(since, 0) AS since,
       'epoch'::timestamptz + max(start_at)::bigint * interval '1 microsecond' AS starts,
       'epoch'::timestamptz + max(end_at)::bigint * interval '1 microsecond' AS ends,
       min(at) FILTER (WHERE what = 'window_opened') AS opened_at,
       min(at) FILTER (WHERE what = 'window_sealed') AS sealed_at,
       min(position) FILTER (WHERE what = 'window_sealed') AS sealed_position,
       min(at) FILTER (WHERE what = 'window_dropped') AS dropped_at
  FROM told
 GROUP BY board, window_id, coalesce(since, 0);
COMMENT ON VIEW rankd.windows IS 'The windows of each board: when they begin and end, and when they were opened, sealed and dropped.';
COMMENT ON COLUMN rankd.windows.since IS 'Where the definition in force was recorded: a board that is redefined goes on in windows of its own.';
