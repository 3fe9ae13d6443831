-- point: let the pointer to the living epoch lead elsewhere, if it leads where one thinks.
--
-- KEYS[1]  string   the pointer
-- ARGV[1]  string   what it is believed to be, '' for none
-- ARGV[2]  string   what it is to be
--
-- Returns what it is now. O(1). Safe to repeat. Atomic because two may want to at once.

local now = redis.call("GET", KEYS[1]) or ""
if now ~= ARGV[1] then return now end
redis.call("SET", KEYS[1], ARGV[2])
return ARGV[2]
