-- windows: how each closed window ended, in its last edition.

WITH latest AS (
    SELECT board, window_id, MAX(edition) AS edition
      FROM standings
     GROUP BY board, window_id
)
SELECT standings.board AS board,
       standings.window_id AS window_id,
       standings.edition AS edition,
       MAX(standings.day) AS sealed,
       COUNT(*) AS players,
       MAX(CASE WHEN place = 1 THEN player END) AS first_player,
       MAX(CASE WHEN place = 1 THEN score END) AS first_score,
       MAX(CASE WHEN place = 10 THEN score END) AS tenth_score,
       MAX(CASE WHEN place * 2 IN (total, total + 1) THEN score END) AS median_score,
       MAX(CASE WHEN place = total THEN score END) AS last_score
  FROM standings
  JOIN latest ON latest.board = standings.board
             AND latest.window_id = standings.window_id
             AND latest.edition = standings.edition
 GROUP BY standings.board, standings.window_id, standings.edition
 ORDER BY board, sealed, window_id
