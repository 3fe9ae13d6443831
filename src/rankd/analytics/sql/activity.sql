-- activity: how much was played, by board and day, and how many players were new.
--
-- A player is new on the day of its first submission to the board, as far back as the archive goes.

WITH firsts AS (
    SELECT board, player, MIN(day_number) AS first_number
      FROM history
     GROUP BY board, player
)
SELECT submissions.board AS board,
       submissions.day AS day,
       COUNT(*) AS submissions,
       COUNT(DISTINCT submissions.player) AS players,
       COUNT(DISTINCT CASE WHEN firsts.first_number = submissions.day_number
                           THEN submissions.player END) AS new_players,
       SUM(CASE WHEN submissions.verdict = 'counted' THEN 1 ELSE 0 END) AS counted,
       SUM(CASE WHEN submissions.verdict = 'not_better' THEN 1 ELSE 0 END) AS not_better,
       SUM(CASE WHEN submissions.verdict = 'held' THEN 1 ELSE 0 END) AS held,
       SUM(CASE WHEN submissions.verdict = 'rejected' THEN 1 ELSE 0 END) AS rejected
  FROM submissions
  JOIN firsts ON firsts.board = submissions.board AND firsts.player = submissions.player
 GROUP BY submissions.board, submissions.day
 ORDER BY board, day
