-- distribution: the scores that players had at the end of the range, as quantiles by board.
--
-- A quantile is the least score that so large a share of the players does not exceed. The scores are
-- those of the window that speaks for the board.

WITH numbered AS (
    SELECT board, player, score,
           ROW_NUMBER() OVER (PARTITION BY board, player ORDER BY position DESC) AS newest
      FROM history
     WHERE score IS NOT NULL
),
ranked AS (
    SELECT board, score,
           ROW_NUMBER() OVER (PARTITION BY board ORDER BY score) AS place,
           COUNT(*) OVER (PARTITION BY board) AS players
      FROM numbered
     WHERE newest = 1
)
SELECT board,
       MAX(players) AS players,
       MIN(score) AS lowest,
       MIN(CASE WHEN place * 100 >= players * 1 THEN score END) AS p01,
       MIN(CASE WHEN place * 100 >= players * 5 THEN score END) AS p05,
       MIN(CASE WHEN place * 100 >= players * 10 THEN score END) AS p10,
       MIN(CASE WHEN place * 100 >= players * 25 THEN score END) AS p25,
       MIN(CASE WHEN place * 100 >= players * 50 THEN score END) AS p50,
       MIN(CASE WHEN place * 100 >= players * 75 THEN score END) AS p75,
       MIN(CASE WHEN place * 100 >= players * 90 THEN score END) AS p90,
       MIN(CASE WHEN place * 100 >= players * 95 THEN score END) AS p95,
       MIN(CASE WHEN place * 100 >= players * 99 THEN score END) AS p99,
       MAX(score) AS highest
  FROM ranked
 GROUP BY board
 ORDER BY board
