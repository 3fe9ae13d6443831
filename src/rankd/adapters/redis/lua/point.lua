-- point: compare-and-set the pointer to the live index generation.
--
-- KEYS[1]  string   the pointer
-- ARGV[1]  string   expected value, '' for none
-- ARGV[2]  string   new value
--
-- Returns the value after it. O(1). Safe to repeat. Atomic because two nodes may call at once.

local now = redis.call("GET", KEYS[1]) or ""
if now ~= ARGV[1] then return now end
redis.call("SET", KEYS[1], ARGV[2])
return ARGV[2]
