-- partition: the keys of one partition, and helpers shared by all scripts.
--
-- It is put before each of the other scripts. All keys begin with one hash tag, so a partition is
-- on one server and a script changes all of it at one moment.
--
-- KEYS[1]  hash  {prefix:epoch:number}m, the partition's own state:
--                at       the position it is true at, in decimal digits
--                epoch    name of the index generation, part of the hash of players
--                gens     how many generations of rankings there have been
--                pending  an apply that is partly taken: {through, mark, pieces, bytes}
--                bytes    how much of applies is remembered
--                filled   how many entries were put here by fill.lua, more or less
--                torn     set while a script writes, and for good once the generation is dropped
--
-- Further keys with the same tag; a ranking's generation lasts from its opening to its dropping:
--   n<board>        hash  window and segment -> generation:key bytes:dense
--   s               set   boards
--   g               hash  generation -> how many buckets it has
--   z<gen>          zset  order key and player; every score is 0, so Redis sorts by bytes
--   b<gen>:<number> hash  a bucket: player -> order key, small enough to stay packed
--   i<gen>          hash  player -> metadata, only where there is some
--   d<gen>          zset  distinct scores of a dense ranking
--   c<gen>          hash  score -> how many further entries have it, where any has
--   l               list  remembered applies, oldest first: {after, through, mark, bytes, pieces}
--   a<after>        hash  one of them: who target, mark | r<piece> reply | n<piece> names before |
--                         u<piece>:<gen> entries before | s<piece>:<gen> scores before
--   x               list  generations to be freed, each with the apply that dropped it
--
-- Positions are strings throughout: Lua's numbers are doubles. Lists of numbers go out as
-- MessagePack, strings end to end beside a list of their lengths, -1 for one that is not there.

local call, floor, sub, byte = redis.call, math.floor, string.sub, string.byte
local meta = KEYS[1]
local tag = sub(meta, 1, -2)

-- Arguments: ARGV[1] is a MessagePack array, its last element the lengths of the strings that
-- lie end to end in ARGV[2], for MessagePack in Lua knows no bytes.
local head = ARGV[1] and cmsgpack.unpack(ARGV[1]) or {}
local lengths, taken, offset = head[#head], 0, 0
local function take()
    taken = taken + 1
    local from = offset + 1
    offset = offset + lengths[taken]
    return sub(ARGV[2], from, offset)
end

-- Reply.
local numbers, given, sizes = {}, {}, {}
local function say(number)
    numbers[#numbers + 1] = number
end
local function give(text)
    sizes[#sizes + 1] = text and #text or -1
    given[#given + 1] = text or ""
end
local function answer(status, at)
    return {status, at, cmsgpack.pack(numbers), cmsgpack.pack(sizes), table.concat(given)}
end

local PACKED_ARGUMENTS_MAX = 1000 -- Far below Lua's limit of values unpacked at once.

-- Call a command with a key and a list that may be long.
local function call_many(command, key, list)
    for first = 1, #list, PACKED_ARGUMENTS_MAX do
        call(command, key, unpack(list, first, math.min(first + PACKED_ARGUMENTS_MAX - 1, #list)))
    end
end

-- Linear hashing: buckets are added one by one, each split from an existing one.
local function bucket_of(hash, buckets)
    local size = 1
    while size < buckets do size = size * 2 end
    local number = hash % size
    if number >= buckets then number = hash % (size / 2) end
    return number
end

local function bucket_key(gen, number)
    return tag .. "b" .. gen .. ":" .. number
end

local function count_below(zset, place)
    return call("ZLEXCOUNT", zset, "-", "(" .. place)
end

-- How many entries have a score: the first is in the sorted set, further ones are counted.
local function entries_with(gen, score)
    if not call("ZSCORE", tag .. "d" .. gen, score) then return 0 end
    return 1 + tonumber(call("HGET", tag .. "c" .. gen, score) or "0")
end

-- Free up to keys_max keys of a generation; return how many, and whether none is left.
local function release(gen, keys_max)
    local buckets = tonumber(call("HGET", tag .. "g", gen) or "0")
    local left = math.max(0, buckets - keys_max)
    for number = left, buckets - 1 do call("UNLINK", bucket_key(gen, number)) end
    if left > 0 then
        call("HSET", tag .. "g", gen, left)
    else
        for _, kind in ipairs({"z", "i", "d", "c"}) do call("UNLINK", tag .. kind .. gen) end
        call("HDEL", tag .. "g", gen)
    end
    return buckets - left + 4, left == 0
end
