-- fill: load entries into a generation that is not read yet, without looking up or counting.
--
-- KEYS[1]  hash     the partition, see partition.lua
-- ARGV[1]  array    {rankings, lengths}, of each ranking:
--                   board, name, "key bytes:dense"
--                   buckets   integer: how many it has here, the same in every call
--                   ids       {length of each player's id, ...}
--                   numbers   {which bucket each player is in, ...}
--                   shown     {length of each one's metadata, -1 for none, ...}; empty if no entry
--                             has any
--                   having    {how many entries have each score in all, ...}, of a dense ranking
-- ARGV[2]  bytes    for each ranking: the order keys end to end, the ids, the metadata, the scores
--
-- Returns {"ok", position, numbers, sizes, strings}, all of them empty, or {"gone"}: there is no
-- such index generation. O(m log n). Safe to repeat: the same entries are written again.
-- Atomic because a partition with a part of the entries has to be recognized.

local state = call("HMGET", meta, "at", "torn", "gens")
if not state[1] or state[2] then return {"gone"} end
local gens = tonumber(state[3])

call("EXISTS", tag .. "?") -- As in apply.lua: if the slot is being migrated, abort here.
call("HSET", meta, "torn", "1")

local function generation(board, name, shape, buckets)
    local key = tag .. "n" .. board
    local value = call("HGET", key, name)
    if value then return string.match(value, "^(%d+):") end
    gens = gens + 1
    call("HSET", meta, "gens", gens)
    call("HSET", key, name, gens .. ":" .. shape)
    call("SADD", tag .. "s", board)
    call("HSET", tag .. "g", gens, buckets)
    return tostring(gens)
end

local function put_scores(gen, width, having, scores)
    local zset, further = tag .. "d" .. gen, tag .. "c" .. gen
    for i, entries in ipairs(having) do
        local score = sub(scores, (i - 1) * width + 1, i * width)
        call("ZADD", zset, 0, score)
        if entries > 1 then call("HSET", further, score, entries - 1) end
    end
end

local function put_shown(gen, players, lengths_shown, shown)
    local beside, from = {}, 0
    for i, length in ipairs(lengths_shown) do
        if length >= 0 then
            beside[#beside + 1] = players[i]
            beside[#beside + 1] = sub(shown, from + 1, from + length)
            from = from + length
        end
    end
    call_many("HSET", tag .. "i" .. gen, beside)
end

local filled = 0
for _, sent in ipairs(head[1]) do
    local shape, ids, buckets = sent[3], sent[5], sent[6]
    local gen = generation(sent[1], sent[2], shape, sent[4])
    local width = tonumber(string.match(shape, "^%d+"))
    local keys, names, shown, scores = take(), take(), take(), take()
    local bucket, from, added, players = tag .. "b" .. gen .. ":", 0, {}, {}
    for i, length in ipairs(ids) do
        local player = sub(names, from + 1, from + length)
        local key = sub(keys, (i - 1) * width + 1, i * width)
        from = from + length
        call("HSET", bucket .. buckets[i], player, key)
        added[2 * i - 1], added[2 * i] = 0, key .. player
        players[i] = player
    end
    call_many("ZADD", tag .. "z" .. gen, added)
    put_shown(gen, players, sent[7], shown)
    put_scores(gen, width - 8, sent[8], scores)
    filled = filled + #ids
end

-- A sweep sees by this that the generation is still being filled.
call("HSET", meta, "filled", tonumber(call("HGET", meta, "filled") or "0") + filled + 1)
call("HDEL", meta, "torn")
return answer("ok", state[1])
