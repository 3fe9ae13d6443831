-- A line `-- name --`, its purpose, the statement.
-- tests/meta/test_sql.py fails on a query no module uses and on a name no file defines.
-- The schema is called rankd here; another name is substituted when a statement is run.

-- append --
-- One round trip for all of it; see migrations/0012_player_changes.sql. Not on a server that lacks
-- the last append that was seen, which is named by its last position (0 for none) and its link.
SELECT CASE
       WHEN $22::bigint = 0
         OR EXISTS (SELECT FROM rankd.appends AS seen WHERE seen.last = $22 AND seen.link = $23)
       THEN rankd.append_facts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15,
                               $16, $17, $18, $19, $20, $21)
       ELSE ''
       END;

-- compare_history --
-- Last position of a server's ledger, and the link of the append that ends at a position.
SELECT coalesce((SELECT max(last) FROM rankd.appends), 0) AS head,
       (SELECT link FROM rankd.appends WHERE last = $1) AS link;

-- settle --
-- Outcome of an append whose reply was lost.
SELECT rankd.settle($1, $2, $3, $4);

-- lock_head --
-- Proof that an append is possible: it needs this lock, and a commit.
SELECT FROM rankd.head FOR UPDATE;

-- read --
-- The next facts after a position, for every projector.
SELECT position, at, kind, body FROM rankd.read($1, $2);

-- read_at --
-- The facts at positions.
SELECT fact.position, fact.at, fact.kind, fact.body
  FROM unnest($1::bigint[]) AS wanted (position),
       LATERAL rankd.read(wanted.position - 1, 1) AS fact
 WHERE fact.position = wanted.position
 ORDER BY fact.position;

-- facts_of --
-- A player's facts between two positions.
SELECT position, at, kind, body FROM rankd.facts_of($1, $2, $3, $4, $5, $6);

-- last_append --
-- Last position of the ledger, and its link.
SELECT last, link
  FROM rankd.appends
 ORDER BY last DESC
 LIMIT 1;

-- server_time --
-- The server's time, in microseconds.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- last_time --
-- When the last facts were appended, in microseconds.
SELECT (extract(epoch FROM at) * 1000000)::bigint
  FROM rankd.appends
 ORDER BY last DESC
 LIMIT 1;

-- read_link --
-- Link of the append that ends at a position.
SELECT link
  FROM rankd.appends
 WHERE last = $1;

-- find_uses --
-- First uses of keys.
SELECT place, first_at, fingerprint, receipt
  FROM rankd.used($1, $2);

-- receipts_through --
-- Last position before the first submission with a key and without a receipt, which is in the first
-- append that lacks one; or the head. One statement, because an append between two would be missed.
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
-- The final standings of a closed window, some at a time; existing rows stay as they are, except
-- those written before rows had a place and an order key.
INSERT INTO rankd.sealed_standings AS kept
       (board, window_id, since, place, rank, player, order_key, scores, metadata)
SELECT $1, $2, $3, given.place, given.rank, given.player, given.order_key,
       given.scores::bigint[], given.metadata::json
  FROM unnest($4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::text[], $9::text[])
       AS given (place, rank, player, order_key, scores, metadata)
    ON CONFLICT (board, window_id, since, player) DO UPDATE
   SET place = excluded.place, order_key = excluded.order_key
 WHERE kept.place IS NULL;

-- kept_standings --
-- Number of rows of a closed window stored with their place.
SELECT count(*)
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3
   AND place IS NOT NULL;

-- finish_standings --
-- Mark a closed window as completely stored.
INSERT INTO rankd.sealed_windows (board, window_id, since, total)
VALUES ($1, $2, $3, $4)
    ON CONFLICT DO NOTHING;

-- archived_windows --
-- Closed windows with stored rows: one index lookup for each, however many rows it has.
WITH RECURSIVE kept AS (
    (SELECT board, window_id, since
       FROM rankd.sealed_standings
      ORDER BY board, window_id, since
      LIMIT 1)
     UNION ALL
    SELECT following.board, following.window_id, following.since
      FROM kept
     CROSS JOIN LATERAL (
           SELECT standings.board, standings.window_id, standings.since
             FROM rankd.sealed_standings AS standings
            WHERE (standings.board, standings.window_id, standings.since)
                  > (kept.board, kept.window_id, kept.since)
            ORDER BY standings.board, standings.window_id, standings.since
            LIMIT 1) AS following)
SELECT board, window_id, since FROM kept
 UNION
SELECT board, window_id, since FROM rankd.sealed_windows
 ORDER BY board, window_id, since;

-- drop_sealed_window --
-- Done first, so that a window being deleted is not read as complete.
DELETE FROM rankd.sealed_windows
 WHERE board = $1
   AND window_id = $2
   AND since = $3;

-- drop_standings --
-- Delete some rows of a closed window past its retention.
DELETE FROM rankd.sealed_standings
 WHERE (board, window_id, since, player) IN (
       SELECT board, window_id, since, player
         FROM rankd.sealed_standings
        WHERE board = $1
          AND window_id = $2
          AND since = $3
        LIMIT $4);

-- any_standing --
-- Whether any row of a closed window is there.
SELECT 1
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3
 LIMIT 1;

-- sealed_total --
-- How many rows a closed window has, if it is complete.
SELECT total
  FROM rankd.sealed_windows
 WHERE board = $1
   AND window_id = $2
   AND since = $3;

-- kept_books --
-- Positions of the state snapshots, the newest first.
SELECT position
  FROM rankd.books
 WHERE parts IS NOT NULL
 ORDER BY position DESC;

-- begin_book --
-- Begin a snapshot, unless there is a new enough one, or another node began one lately.
INSERT INTO rankd.books (position, node)
SELECT $1::bigint, $2::text
 WHERE NOT EXISTS (
       SELECT
         FROM rankd.books
        WHERE position > $3
          AND (parts IS NOT NULL OR begun > clock_timestamp() - make_interval(secs => $4)))
    ON CONFLICT DO NOTHING
RETURNING position;

-- add_book_part --
-- Returns nothing if the snapshot was deleted meanwhile. Safe to repeat.
INSERT INTO rankd.book_parts (position, part, body)
SELECT books.position, $2::integer, $3::bytea
  FROM rankd.books AS books
 WHERE books.position = $1
   FOR KEY SHARE
    ON CONFLICT (position, part) DO UPDATE SET body = excluded.body
RETURNING part;

-- finish_book --
-- From here on other nodes find it.
UPDATE rankd.books
   SET parts = $2, digest = $3
 WHERE position = $1
RETURNING position;

-- drop_books --
-- Delete all but the newest few snapshots, and unfinished ones of earlier positions.
DELETE FROM rankd.books
 WHERE parts IS NULL AND position < $1
    OR position < (SELECT min(newest.position)
                     FROM (SELECT books.position
                             FROM rankd.books AS books
                            WHERE books.parts IS NOT NULL
                            ORDER BY books.position DESC
                            LIMIT $2) AS newest);

-- find_book --
-- Number of parts of a snapshot, and their digest.
SELECT parts, digest
  FROM rankd.books
 WHERE position = $1
   AND parts IS NOT NULL;

-- read_book --
-- Some parts of a snapshot.
SELECT part, body
  FROM rankd.book_parts
 WHERE position = $1
   AND part > $2
 ORDER BY part
 LIMIT $3;

-- sealed_rows --
-- A page of a closed window.
SELECT place, rank, player, order_key, scores, metadata::text AS metadata
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3
   AND place BETWEEN $4 AND $5
 ORDER BY place;

-- sealed_players --
-- Some players in a closed window.
SELECT place, rank, player, order_key, scores, metadata::text AS metadata
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3
   AND player = ANY ($4::text[]);

-- sealed_behind --
-- The first row of a closed window at or after a place: one index lookup.
SELECT place, rank, player, order_key, scores, metadata::text AS metadata
  FROM rankd.sealed_standings
 WHERE board = $1
   AND window_id = $2
   AND since = $3
   AND (order_key, player) >= ($4::bytea, $5::text COLLATE "C")
 ORDER BY order_key, player
 LIMIT 1;

-- lists_kept --
-- Rankings with a stored top list, and the age of each.
SELECT board, window_id, segment, position,
       extract(epoch FROM clock_timestamp() - taken_at)::double precision AS seconds
  FROM rankd.top_lists;

-- keep_lists --
-- Top lists, each in place of an older one.
INSERT INTO rankd.top_lists AS kept
       (board, window_id, segment, position, total, players, order_keys, metadata)
SELECT board, window_id, segment, position, total, players::json, order_keys, metadata::json
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[],
              $7::bytea[], $8::text[])
       AS given (board, window_id, segment, position, total, players, order_keys, metadata)
    ON CONFLICT (board, window_id, segment) DO UPDATE
   SET position = excluded.position, total = excluded.total, taken_at = excluded.taken_at,
       players = excluded.players, order_keys = excluded.order_keys, metadata = excluded.metadata
 WHERE kept.position < excluded.position;

-- drop_lists --
-- Top lists of rankings that are gone.
DELETE FROM rankd.top_lists
 USING unnest($1::text[], $2::text[], $3::text[]) AS gone (board, window_id, segment)
 WHERE top_lists.board = gone.board
   AND top_lists.window_id = gone.window_id
   AND top_lists.segment = gone.segment;

-- list_of --
-- The top list of one ranking.
SELECT position, total, players::text AS players, order_keys, metadata::text AS metadata
  FROM rankd.top_lists
 WHERE board = $1
   AND window_id = $2
   AND segment = $3;

-- begin_copy --
-- From here on the ledger can only be opened to continue the copy.
INSERT INTO rankd.copying (source)
VALUES ($1)
    ON CONFLICT (one) DO UPDATE SET source = excluded.source;

-- copied_from --
-- Source of a copy that is under way, or was interrupted.
SELECT source
  FROM rankd.copying;

-- end_copy --
-- The copy is complete.
DELETE FROM rankd.copying;

-- cover --
-- Partitions for this month and three more, by the server's clock.
SELECT rankd.cover(clock_timestamp());

-- server --
-- Settings that decide whether commits are possible, and survive a power cut.
SELECT current_setting('server_version_num')::integer AS version,
       current_setting('server_version') AS name,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') AS standbys,
       current_setting('default_transaction_isolation') AS isolation,
       current_setting('default_transaction_read_only') AS read_only,
       current_setting('server_encoding') AS encoding,
       pg_is_in_recovery() AS standby,
       pg_backend_pid() AS pid;

-- lock_migrations --
-- Migrations run one at a time. Released with the transaction.
SELECT pg_advisory_xact_lock(hashtextextended('rankd', 0));

-- schema_exists --
-- Whether there is a ledger here, or at least a schema to begin one in.
SELECT to_regnamespace('rankd') IS NOT NULL AS named,
       to_regclass('rankd.schema_version') IS NOT NULL AS begun,
       to_regclass('rankd.facts') IS NOT NULL AS strange;

-- schema_version --
-- Version of the schema.
SELECT coalesce(max(version), 0)
  FROM rankd.schema_version;

-- add_version --
-- Record a version.
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

-- time_corrections --
-- Where ledger time went back.
SELECT position, at
  FROM rankd.time_corrections
 ORDER BY position;

-- page_facts --
-- Whole rows behind a time and a position, in order, up to a position. No correction of the time may
-- lie between the two positions.
SELECT position, at, kind, body, board, player, key, scores, delta, window_id, actor,
       details::text AS details
  FROM rankd.facts
 WHERE at >= $1
   AND (at, position) > ($1, $2)
   AND position > $2
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
-- A receipt that belongs to no fact, if there is one.
SELECT min(position)
  FROM rankd.receipts
 WHERE position > (SELECT coalesce(max(last), 0) FROM rankd.appends);

-- count_players --
-- Number of players in the table.
SELECT count(*)
  FROM rankd.players;

-- told_of_players --
-- The facts that may change players, for one part of the players, in order.
SELECT position, kind, body
  FROM rankd.facts
 WHERE (scores IS NULL AND delta IS NULL OR details IS NOT NULL)
   AND player IS NOT NULL
   AND abs(hashtext(player) % $1) = $2
 ORDER BY position;

-- read_players --
-- The rows of one part of the players.
SELECT player, name, attributes::text AS attributes, friends::text AS friends, position
  FROM rankd.players
 WHERE abs(hashtext(player) % $1) = $2;

-- append_with --
-- The append with a position, and the link of the one before it.
SELECT first, last, at, link,
       (SELECT before.link FROM rankd.appends AS before WHERE before.last = found.first - 1)
  FROM rankd.appends AS found
 WHERE found.last >= $1
 ORDER BY found.last
 LIMIT 1;

-- facts_of_append --
-- Its facts, which have its time.
SELECT position, kind, body
  FROM rankd.facts
 WHERE at = $1
   AND position BETWEEN $2 AND $3
 ORDER BY position;

-- redact_fact --
-- Personal data leaves the ledger, in the transaction of the fact that tells so.
UPDATE rankd.facts
   SET kind = $3, body = $4, details = $5::text::json
 WHERE at = $1
   AND position = $2;

-- redact_key --
-- A repeated submission is compared with the redacted one.
UPDATE rankd.keys
   SET fingerprint = $4
 WHERE board = $1
   AND key = $2
   AND position = $3
   AND fingerprint <> '';

-- redact_standing --
-- The metadata of an erased player in one archived window.
UPDATE rankd.sealed_standings
   SET metadata = NULL
 WHERE board = $1
   AND window_id = $2
   AND since = $3
   AND player = $4
   AND metadata IS NOT NULL;

-- redact_lists --
-- Lists with an erased player; they are taken anew.
DELETE FROM rankd.top_lists
 WHERE players::jsonb ? $1;

-- redact_books --
-- Snapshots of the state from before an erasure; nodes that start meanwhile fold from the facts.
DELETE FROM rankd.books
 WHERE position < $1;

-- redactions_after --
-- Redactions, found by the index of facts other than scores.
SELECT position, kind, body
  FROM rankd.facts
 WHERE kind = $2
   AND scores IS NULL
   AND delta IS NULL
   AND position > $1
 ORDER BY position;
