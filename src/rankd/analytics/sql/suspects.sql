-- suspects: players whose submissions stand out, by the statistics that the rules of a board judge by.
--
-- Each reason is 1 or 0, and `reasons` their sum: it orders people for a look, and proves nothing.
--   per_minute     more submissions in one minute than one person plays
--   gain           a gain within a minute of more than eight times the board's median score
--   first_score    a first score of more than ten times the median
--   outlier_self   a gain of more than twenty times the player's own usual one, after eight gains
--   outlier_field  a best score of more than twice that of 99 % of the players
--   steady         four of five gains are the same, of twenty or more
-- Where lower scores win, a gain is what a score falls by, and the reasons about high scores are 0.

WITH counted AS (
    SELECT board, player, position, score, direction,
           CASE WHEN previous_score IS NULL THEN NULL
                WHEN direction = 'lower' THEN previous_score - score
                ELSE score - previous_score END AS gain,
           CAST(FLOOR(at_us / 60000000) AS BIGINT) AS minute
      FROM submissions
     WHERE verdict IN ('counted', 'not_better') AND score IS NOT NULL
),
minutes AS (
    SELECT board, player, minute, COUNT(*) AS submissions, SUM(COALESCE(gain, 0)) AS gain
      FROM counted
     GROUP BY board, player, minute
),
busiest AS (
    SELECT board, player, MAX(submissions) AS per_minute, MAX(gain) AS minute_gain
      FROM minutes
     GROUP BY board, player
),
gains AS (
    SELECT board, player, gain,
           ROW_NUMBER() OVER (PARTITION BY board, player ORDER BY gain) AS place,
           COUNT(*) OVER (PARTITION BY board, player) AS gains
      FROM counted
     WHERE gain > 0
),
usual AS (
    SELECT board, player,
           MAX(gains) AS gains,
           MAX(gain) AS best_gain,
           MIN(CASE WHEN place * 2 >= gains THEN gain END) AS usual_gain
      FROM gains
     GROUP BY board, player
),
repeated AS (
    SELECT board, player, MAX(times) AS same_gains
      FROM (SELECT board, player, gain, COUNT(*) AS times
              FROM gains
             GROUP BY board, player, gain) AS values_of_gain
     GROUP BY board, player
),
numbered AS (
    SELECT board, player, score, direction,
           ROW_NUMBER() OVER (PARTITION BY board, player ORDER BY position) AS oldest,
           COUNT(*) OVER (PARTITION BY board, player) AS submissions
      FROM counted
),
players AS (
    SELECT board, player,
           MAX(submissions) AS submissions,
           MAX(direction) AS direction,
           MAX(CASE WHEN oldest = 1 THEN score END) AS first_score,
           CASE WHEN MAX(direction) = 'lower' THEN MIN(score) ELSE MAX(score) END AS best_score
      FROM numbered
     GROUP BY board, player
),
placed AS (
    SELECT board, best_score,
           ROW_NUMBER() OVER (PARTITION BY board ORDER BY best_score) AS place,
           COUNT(*) OVER (PARTITION BY board) AS players
      FROM players
),
field AS (
    SELECT board,
           MIN(CASE WHEN place * 2 >= players THEN best_score END) AS median_score,
           MIN(CASE WHEN place * 100 >= players * 99 THEN best_score END) AS high_score
      FROM placed
     GROUP BY board
),
judged AS (
    SELECT players.board AS board,
           players.player AS player,
           players.submissions AS submissions,
           players.best_score AS best_score,
           busiest.per_minute AS most_per_minute,
           busiest.minute_gain AS minute_gain,
           COALESCE(usual.best_gain, 0) AS best_gain,
           COALESCE(usual.usual_gain, 0) AS usual_gain,
           CASE WHEN busiest.per_minute > 6 THEN 1 ELSE 0 END AS per_minute,
           CASE WHEN field.median_score > 0 AND busiest.minute_gain > 8 * field.median_score
                THEN 1 ELSE 0 END AS gain,
           CASE WHEN players.direction = 'higher' AND field.median_score > 0
                     AND players.first_score > 10 * field.median_score THEN 1 ELSE 0 END AS first_score,
           CASE WHEN usual.gains > 8 AND usual.best_gain > 20 * usual.usual_gain
                THEN 1 ELSE 0 END AS outlier_self,
           CASE WHEN players.direction = 'higher' AND field.high_score > 0
                     AND players.best_score > 2 * field.high_score THEN 1 ELSE 0 END AS outlier_field,
           CASE WHEN usual.gains >= 20 AND repeated.same_gains * 5 >= usual.gains * 4
                THEN 1 ELSE 0 END AS steady
      FROM players
      JOIN busiest ON busiest.board = players.board AND busiest.player = players.player
      JOIN field ON field.board = players.board
      LEFT JOIN usual ON usual.board = players.board AND usual.player = players.player
      LEFT JOIN repeated ON repeated.board = players.board AND repeated.player = players.player
)
SELECT board, player,
       per_minute + gain + first_score + outlier_self + outlier_field + steady AS reasons,
       per_minute, gain, first_score, outlier_self, outlier_field, steady,
       submissions, best_score, most_per_minute, minute_gain, best_gain, usual_gain
  FROM judged
 WHERE per_minute + gain + first_score + outlier_self + outlier_field + steady > 0
 ORDER BY reasons DESC, board, player
 LIMIT 1000
