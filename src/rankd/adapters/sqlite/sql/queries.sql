-- A line `-- name --`, its purpose, the statement.
-- tests/meta/test_sql.py fails on a query no module uses and on a name no file defines.

-- add_block --
-- The one place where facts are written.
INSERT INTO block (last, first, at, facts, link)
VALUES (:last, :first, :at, :facts, :link);

-- redact_block --
-- A row of the same size is overwritten in place, on the pages that have it.
UPDATE block
   SET facts = :facts
 WHERE last = :last;

-- hold_players --
-- The rows of the table of players, while it is made anew.
CREATE TEMP TABLE held_players AS
SELECT player, name, attributes, friends, position
  FROM main.players;

-- clear_players --
-- Frees all pages of the table, and so zeroes them.
DELETE FROM players;

-- return_players --
-- In the order of the tree.
INSERT INTO main.players (player, name, attributes, friends, position)
SELECT player, name, attributes, friends, position
  FROM temp.held_players
 ORDER BY player;

-- release_players --
-- The rows are where they were.
DROP TABLE temp.held_players;

-- last_block --
-- End of the ledger, from which the next append continues.
SELECT last, at, link
  FROM block
 ORDER BY last DESC
 LIMIT 1;

-- read_link --
-- Link of the block that ends at a position.
SELECT link
  FROM block
 WHERE last = :position;

-- read_blocks --
-- The blocks with facts after a position, oldest first; the first may begin before it.
SELECT first, last, at, facts, link
  FROM block
 WHERE last > :after
 ORDER BY last;

-- read_block --
-- The block with the fact right after a position.
SELECT first, last, at, facts, link
  FROM block
 WHERE last > :after
 ORDER BY last
 LIMIT 1;

-- page_blocks --
-- The next blocks with facts after a position and up to another.
SELECT first, last, at, facts, link
  FROM block
 WHERE last > :after
   AND first <= :through
 ORDER BY last
 LIMIT :limit;

-- page_blocks_back --
-- The blocks with facts before a position and after another, the newest first. No block that begins
-- before the position ends behind :last.
SELECT first, last, at, facts, link
  FROM block
 WHERE last > :after
   AND last < :last
   AND first < :before
 ORDER BY last DESC
 LIMIT :limit;

-- add_recent_keys --
-- One block's keys at once: an array with the hash of each fact's key, null where it has none.
INSERT INTO recent_key (position, hash)
SELECT :first + key, value
  FROM json_each(:hashes)
 WHERE value IS NOT NULL;

-- move_keys --
-- Into the table that is in the order of hashes: an array of hash and position, in that order. They
-- may be there from a move that was cut short.
INSERT INTO key (hash, position)
SELECT value ->> 0, value ->> 1
  FROM json_each(:keys)
 WHERE true
    ON CONFLICT DO NOTHING;

-- drop_recent_keys --
-- The oldest of those that were moved.
DELETE FROM recent_key
 WHERE position IN (SELECT position
                      FROM recent_key
                     WHERE position <= :through
                     ORDER BY position
                     LIMIT :many);

-- drop_moved_keys --
-- Those that were moved before a stop.
DELETE FROM recent_key
 WHERE EXISTS (SELECT 1
                 FROM key
                WHERE key.hash = recent_key.hash
                  AND key.position = recent_key.position);

-- read_recent_keys --
-- All of them, oldest first, and the head at the moment of reading.
SELECT position, hash, (SELECT coalesce(max(last), 0) FROM block)
  FROM recent_key
 ORDER BY position;

-- find_keys --
-- Where hashes were used. CROSS JOIN keeps the array outside.
SELECT key.position
  FROM json_each(:hashes) AS wanted
 CROSS JOIN key ON key.hash = wanted.value;

-- find_recent_keys --
-- The same for a reader without them in memory: one scan of the recent ones.
SELECT position
  FROM recent_key
 WHERE hash IN (SELECT value FROM json_each(:hashes));

-- read_receipts --
-- Stored receipts at positions, given as an array.
SELECT receipt.position, receipt.body
  FROM json_each(:positions) AS wanted
 CROSS JOIN receipt ON receipt.position = wanted.value;

-- add_receipts --
-- The first receipt stays: a repeated submission gets the same one. The row is repeated for each
-- receipt; rows without a position are left out.
INSERT INTO receipt (position, body, checksum)
SELECT column1, column2, column3
  FROM (VALUES (?, ?, ?))
 WHERE column1 IS NOT NULL
    ON CONFLICT DO NOTHING;

-- last_receipt --
-- Receipts are stored in the order of their facts, so the last one implies those before it.
SELECT coalesce(max(position), 0)
  FROM receipt;

-- find_receipts --
-- Which positions, given as an array, have a receipt.
SELECT receipt.position
  FROM json_each(:positions) AS wanted
 CROSS JOIN receipt ON receipt.position = wanted.value;

-- check_keys --
-- Which of a block's facts have an entry in either table; the array is that of add_recent_keys.
SELECT key.position
  FROM json_each(:hashes) AS wanted
 CROSS JOIN key ON key.hash = wanted.value AND key.position = :first + wanted.key
 UNION
SELECT recent.position
  FROM json_each(:hashes) AS wanted
 CROSS JOIN recent_key AS recent
         ON recent.position = :first + wanted.key AND recent.hash = wanted.value;

-- page_keys --
-- The key table in its own order, and the head at the moment of reading.
SELECT hash, position, (SELECT coalesce(max(last), 0) FROM block)
  FROM key
 WHERE (hash, position) > (:hash, :position)
 ORDER BY hash, position
 LIMIT :limit;

-- page_receipts --
-- All receipts by position, and the head at the moment of reading.
SELECT position, body, checksum, (SELECT coalesce(max(last), 0) FROM block)
  FROM receipt
 WHERE position > :after
 ORDER BY position
 LIMIT :limit;

-- find_players --
-- Rows of players, given as an array.
SELECT players.player, name, attributes, friends, position
  FROM json_each(:players) AS wanted
 CROSS JOIN players ON players.player = wanted.value;

-- put_player --
-- Insert or replace the row of a player.
INSERT INTO players (player, name, attributes, friends, position)
VALUES (:player, :name, :attributes, :friends, :position)
    ON CONFLICT (player) DO UPDATE
   SET name = excluded.name,
       attributes = excluded.attributes,
       friends = excluded.friends,
       position = excluded.position;

-- remove_player --
-- The row of an erased player.
DELETE FROM players
 WHERE player = :player;

-- read_players --
-- All of them, to compare with the facts.
SELECT player, name, attributes, friends, position
  FROM players;

-- rename_key --
-- Only in a migration: a fact's key has become another.
UPDATE key
   SET hash = :new
 WHERE hash = :old
   AND position = :position;

-- copied_head --
-- Head of a ledger that is copied row by row, up to which the copy goes.
SELECT coalesce(max(last), 0)
  FROM original.block;

-- copy_players --
-- All of them: the one table whose rows change.
INSERT INTO main.players (player, name, attributes, friends, position)
SELECT player, name, attributes, friends, position
  FROM original.players
 ORDER BY player;

-- copy_recent_keys --
-- All of them, before the others: a key that is moved meanwhile is then in both.
INSERT INTO main.recent_key (position, hash)
SELECT position, hash
  FROM original.recent_key
 ORDER BY position;

-- copy_blocks --
-- The next blocks up to the head of the copy.
INSERT INTO main.block (last, first, at, facts, link)
SELECT last, first, at, facts, link
  FROM original.block
 WHERE last > (SELECT coalesce(max(last), 0) FROM main.block)
   AND last <= :head
 ORDER BY last
 LIMIT :limit;

-- copy_keys --
-- The next keys, in the order of the tree, of facts up to the head of the copy.
INSERT INTO main.key (hash, position)
SELECT hash, position
  FROM original.key
 WHERE (hash, position) > (:hash, :position)
   AND position <= :head
 ORDER BY hash, position
 LIMIT :limit;

-- last_key --
-- How far the keys were copied.
SELECT hash, position
  FROM key
 ORDER BY hash DESC, position DESC
 LIMIT 1;

-- copy_receipts --
-- The next receipts up to the head of the copy. They are stored in the order of their facts, so
-- that none can be added later before those that were copied.
INSERT INTO main.receipt (position, body, checksum)
SELECT position, body, checksum
  FROM original.receipt
 WHERE position > (SELECT coalesce(max(position), 0) FROM main.receipt)
   AND position <= :head
 ORDER BY position
 LIMIT :limit;

-- read_schema --
-- The schema as the file has it.
SELECT type, name, tbl_name, sql
  FROM sqlite_schema
 ORDER BY type, name;
