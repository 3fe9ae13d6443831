-- retention: of the players whose first submission to a board was on a day, how many came back.
--
-- Cohorts begin in the range of the report; their players may have come back at any later time.

WITH firsts AS (
    SELECT board, player, MIN(day) AS cohort, MIN(day_number) AS first_number
      FROM history
     GROUP BY board, player
),
visits AS (
    SELECT DISTINCT board, player, day_number
      FROM history
)
SELECT firsts.board AS board,
       firsts.cohort AS cohort,
       SUM(CASE WHEN visits.day_number = firsts.first_number THEN 1 ELSE 0 END) AS players,
       SUM(CASE WHEN visits.day_number = firsts.first_number + 1 THEN 1 ELSE 0 END) AS day_1,
       SUM(CASE WHEN visits.day_number = firsts.first_number + 3 THEN 1 ELSE 0 END) AS day_3,
       SUM(CASE WHEN visits.day_number = firsts.first_number + 7 THEN 1 ELSE 0 END) AS day_7,
       SUM(CASE WHEN visits.day_number = firsts.first_number + 30 THEN 1 ELSE 0 END) AS day_30
  FROM firsts
  JOIN visits ON visits.board = firsts.board AND visits.player = firsts.player
  JOIN bounds ON firsts.first_number BETWEEN bounds.first_number AND bounds.last_number
 GROUP BY firsts.board, firsts.cohort
 ORDER BY board, cohort
