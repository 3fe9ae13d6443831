-- movement: the players that rose and fell most between their first and last submission in the range.
--
-- Ranks are those that the submissions were answered with: before the first one, or after it for a
-- player that was new, and after the last one.

WITH numbered AS (
    SELECT board, player, rank, previous_rank,
           ROW_NUMBER() OVER (PARTITION BY board, player ORDER BY position) AS oldest,
           ROW_NUMBER() OVER (PARTITION BY board, player ORDER BY position DESC) AS newest,
           COUNT(*) OVER (PARTITION BY board, player) AS submissions
      FROM submissions
     WHERE rank IS NOT NULL
),
moved AS (
    SELECT board, player,
           MAX(submissions) AS submissions,
           MAX(CASE WHEN oldest = 1 THEN COALESCE(previous_rank, rank) END) AS rank_before,
           MAX(CASE WHEN newest = 1 THEN rank END) AS rank_after
      FROM numbered
     GROUP BY board, player
),
extremes AS (
    SELECT board, player, submissions, rank_before, rank_after,
           rank_before - rank_after AS rank_change,
           ROW_NUMBER() OVER (PARTITION BY board ORDER BY rank_before - rank_after DESC, player) AS rise,
           ROW_NUMBER() OVER (PARTITION BY board ORDER BY rank_before - rank_after, player) AS fall
      FROM moved
)
SELECT board, player, submissions, rank_before, rank_after, rank_change
  FROM extremes
 WHERE (rise <= 20 AND rank_change > 0) OR (fall <= 20 AND rank_change < 0)
 ORDER BY board, rank_change DESC, player
