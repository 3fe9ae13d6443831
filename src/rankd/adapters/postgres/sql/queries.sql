-- A line `-- name --`, what it is for, the statement.
-- tests/meta/test_sql.py fails on a query no module uses and on a name no file defines.
-- The schema is called rankd here; another name is put in its place when a statement is asked.

-- append --
-- One round trip for all of it; see migrations/0002_append.sql.
SELECT rankd.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                    $19, $20, $21);

-- settle --
-- What became of an append whose answer was lost.
SELECT rankd.settle($1, $2, $3, $4);

-- read --
-- The next facts after a position: what every projector lives on.
SELECT position, at, kind, body FROM rankd.read($1, $2);

-- last_append --
-- Where the ledger ends.
SELECT last, link
  FROM rankd.appends
 ORDER BY last DESC
 LIMIT 1;

-- read_link --
-- What stands for everything up to a position, where an append ended with it.
SELECT link
  FROM rankd.appends
 WHERE last = $1;

-- find_uses --
-- Where keys were used first.
SELECT place, first_at, fingerprint, receipt
  FROM rankd.used($1, $2);

-- receipts_through --
-- Up to the first submission with a key that has no receipt, which is in the first append that lacks
-- one; or to the head. In one statement: an append that comes between two would be overlooked.
SELECT coalesce(
           (SELECT min(facts.position) - 1
              FROM (SELECT first, last, at
                      FROM rankd.appends
                     WHERE lacking > 0
                     ORDER BY last
                     LIMIT 1) AS appends
              JOIN rankd.facts AS facts
                ON facts.at = appends.at AND facts.position BETWEEN appends.first AND appends.last
             WHERE facts.key IS NOT NULL
               AND NOT EXISTS (SELECT FROM rankd.receipts WHERE receipts.position = facts.position)),
           (SELECT max(last) FROM rankd.appends),
           0);

-- lacking_receipts --
-- Which of these positions are submissions with a key and without a receipt.
SELECT wanted.position
  FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (position, place)
 CROSS JOIN LATERAL (
       SELECT appends.at
         FROM rankd.appends AS appends
        WHERE appends.last >= wanted.position
        ORDER BY appends.last
        LIMIT 1) AS appended
  JOIN rankd.facts AS facts
    ON facts.at = appended.at AND facts.position = wanted.position
 WHERE facts.key IS NOT NULL
   AND NOT EXISTS (SELECT FROM rankd.receipts WHERE receipts.position = wanted.position)
 ORDER BY wanted.place;

-- keep_standings --
-- The final standings of a closed window, some at a time; what is kept is not kept again.
INSERT INTO rankd.sealed_standings (board, window_id, since, rank, player, scores, metadata)
SELECT $1, $2, $3, given.rank, given.player, given.scores::bigint[], given.metadata::json
  FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[])
       AS given (rank, player, scores, metadata)
    ON CONFLICT DO NOTHING;

-- kept_standings --
-- How much of a closed window is kept.
SELECT count(*)
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3;

-- cover --
-- Partitions for this month and three more, by the server's clock.
SELECT rankd.cover(clock_timestamp());

-- server --
-- What decides whether a commit survives a power cut, and whether there can be any.
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS name,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('default_transaction_isolation') AS isolation,
       current_setting('default_transaction_read_only') AS read_only,
       current_setting('server_encoding') AS encoding,
       pg_is_in_recovery() AS standby,
       pg_backend_pid() AS pid;

-- lock_migrations --
-- Whoever migrates waits for whoever does already. Let go of with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('rankd', 0));

-- schema_exists --
-- Whether there is a ledger here, or at least a schema to begin one in.
SELECT to_regnamespace('rankd') IS NOT NULL AS named,
       to_regclass('rankd.schema_version') IS NOT NULL AS begun,
       to_regclass('rankd.facts') IS NOT NULL AS strange;

-- schema_version --
-- How far the schema has come.
SELECT coalesce(max(version), 0)
  FROM rankd.schema_version;

-- add_version --
-- One step further.
INSERT INTO rankd.schema_version (version)
VALUES ($1);

-- page_appends --
-- Appends after a position, and how many receipts each has.
SELECT first, last, at, link, lacking,
       (SELECT count(*) FROM rankd.receipts AS receipts
         WHERE receipts.position BETWEEN appends.first AND appends.last) AS kept
  FROM rankd.appends AS appends
 WHERE last > $1
 ORDER BY last
 LIMIT $2;

-- page_facts --
-- Whole rows behind a time and a position, in order, up to a position.
SELECT position, at, kind, body, board, player, key, scores, delta, window_id, actor,
       details::text AS details
  FROM rankd.facts
 WHERE at >= $1
   AND (at, position) > ($1, $2)
   AND position <= $3
 ORDER BY at, position
 LIMIT $4;

-- count_keys --
-- How many keys were used up to a position.
SELECT count(*)
  FROM rankd.keys
 WHERE position <= $1;

-- page_receipts --
-- Receipts by position, up to one.
SELECT position, body, checksum
  FROM rankd.receipts
 WHERE position > $1
   AND position <= $2
 ORDER BY position
 LIMIT $3;

-- stray_receipt --
-- One that belongs to nothing, if there is one.
SELECT min(position)
  FROM rankd.receipts
 WHERE position > (SELECT coalesce(max(last), 0) FROM rankd.appends);

-- count_players --
-- How many players anything is known of.
SELECT count(*)
  FROM rankd.players;

-- told_of_players --
-- The facts that tell of players, of one part of the players, in order.
SELECT position, kind, body
  FROM rankd.facts
 WHERE (scores IS NULL AND delta IS NULL OR details IS NOT NULL)
   AND player IS NOT NULL
   AND abs(hashtext(player) % $1) = $2
 ORDER BY at, position;

-- read_players --
-- The rows of one part of the players.
SELECT player, name, attributes::text AS attributes, friends::text AS friends, position
  FROM rankd.players
 WHERE abs(hashtext(player) % $1) = $2;
