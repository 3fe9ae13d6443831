-- apply: take one piece of an apply, in turn and once; or stage moves in drafts.
--
-- KEYS[1]  hash     the partition, see partition.lua
-- ARGV[1]  array    after      string: the position it follows, '' to stage
--                   through    string: the position it leads to
--                   mark       string: distinguishes applies with the same positions
--                   piece      integer from 1: which piece of it this is
--                   last       boolean: with the last piece the position moves
--                   alone      boolean: this is the only partition
--                   remembered_max, bytes_max, released_max, bucket_players  integers: bounds
--                   opened     {board, name, "key bytes:dense", ...}
--                   expected   {board, name, key bytes or 0, whether it must be dense, ...}:
--                              rankings that must be there
--                   dropped    {board, name, ...}
--                   adopted    {draft's board, draft's name, board, name, ...}
--                   rankings   {board, name, wants, players, hashes, actions, shown,
--                               places, scores, changes}, ...
--                              wants   of each entry before, if alone: 1 its place, 2 the first
--                                      place of its score, 4 its score; added up
--                              actions 0 stays, 1 is put, 2 leaves, for each player
--                              shown   true if any of them brings metadata
--                              places, scores  how many are to be counted
--                              changes {by how many, ...}: entries with a score, if not alone
--                   left       {board, name, ...}: dropped with the last piece if they are empty
--                   lengths
-- ARGV[2]  bytes    for each ranking: for each player that is put its order key and, if shown is
--                   true, its metadata behind a + or -; the places; the scores; the changed scores
--
-- Returns {"ok" or, from memory, "again", position, numbers, sizes, strings}; for each ranking, all
-- as before the piece:
--   its total; for each player its order key or none and the counts selected by wants (for a place
--   the entries before it, for a score the better distinct ones and the entries that have it); the
--   counts of the places; two numbers for each score.
-- {"other", position} changes nothing: the partition is at another position. {"mistake", position,
-- reason}: it can never be taken. {"gone"}: there is no such index generation.
--
-- O(m log n). Safe to repeat: a piece that was taken is answered from memory.
-- Atomic because entries, their order keys, their ranks and the position have to agree.

local after, through, mark, piece, last, alone = head[1], head[2], head[3], head[4], head[5], head[6]
local remembered_max, bytes_max, released_max, bucket_players = head[7], head[8], head[9], head[10]
local opened, expected, dropped, adopted, rankings = head[11], head[12], head[13], head[14], head[15]
local left = head[16]
local TIE_BREAK = string.rep("\0", 8)

local state = call("HMGET", meta, "at", "torn", "pending", "gens", "epoch", "bytes")
local at = state[1]
if not at or state[2] then return {"gone"} end
local staging = after == ""
local memory = tag .. "a" .. after
local pieces_bytes = 0

-- ----------------------------------------------------------------- does it follow the position

local function again()
    local kept = call("HGET", memory, "r" .. piece)
    if not kept then return {"other", at} end
    kept = cmsgpack.unpack(kept)
    return {"again", at, kept[1], kept[2], kept[3]}
end

if not staging then
    local pending = state[3] and cmsgpack.unpack(state[3])
    if pending then
        if at ~= after then
            if call("HGET", memory, "who") ~= through .. " " .. mark then return {"other", at} end
            return again()
        end
        if pending[1] ~= through or pending[2] ~= mark then return {"other", at} end
        if piece <= pending[3] then return again() end
        if piece ~= pending[3] + 1 then return {"other", at} end
        pieces_bytes = pending[4]
    elseif at ~= after then
        if call("HGET", memory, "who") ~= through .. " " .. mark then return {"other", at} end
        return again()
    elseif piece ~= 1 then
        return {"other", at}
    end
end

-- ------------------------------------ can it be taken: nothing is written before this is known

local names, fresh, gens = {}, {}, tonumber(state[4])

local function named(board, name)
    return #board .. ":" .. board .. name
end

local function find(board, name)
    local id = named(board, name)
    if names[id] == nil then
        local value = call("HGET", tag .. "n" .. board, name)
        local known = false
        if value then
            local gen, width, dense = string.match(value, "^(%d+):(%d+):(%d)$")
            known = {gen = gen, width = tonumber(width), dense = dense == "1", value = value}
        end
        names[id] = known
    end
    return names[id]
end

for i = 1, #opened, 3 do
    local board, name, shape = opened[i], opened[i + 1], opened[i + 2]
    local known = find(board, name)
    if known then
        if sub(known.value, #known.gen + 2) ~= shape then
            return {"mistake", at, "is open in another shape"}
        end
    else
        gens = gens + 1
        local width, dense = string.match(shape, "^(%d+):(%d)$")
        known = {gen = tostring(gens), width = tonumber(width), dense = dense == "1"}
        known.value = known.gen .. ":" .. shape
        names[named(board, name)] = known
        fresh[#fresh + 1] = {board, name, known}
    end
end
for i = 1, #expected, 4 do
    local known, width = find(expected[i], expected[i + 1]), expected[i + 2]
    if not known then return {"mistake", at, "was never opened"} end
    if expected[i + 3] and not known.dense then
        return {"mistake", at, "does not count distinct scores"}
    end
    if width > 0 and width ~= known.width then
        return {"mistake", at, "has keys of " .. known.width .. " bytes, not " .. width}
    end
end
for i = 1, #adopted, 4 do
    if not find(adopted[i], adopted[i + 1]) then return {"mistake", at, "was never staged"} end
end

-- -------------------------------------------------------------------------------------- names

-- While a cluster migrates the slot, a script that reads a missing key is aborted. This key never
-- exists, so the abort happens here, before anything is written.
call("EXISTS", tag .. "?")

-- An aborted script leaves this mark, and the partition is not read any more.
call("HSET", meta, "torn", "1")

local names_before = {}

local function name_it(board, name, value)
    local key = tag .. "n" .. board
    names_before[#names_before + 1] = board
    names_before[#names_before + 1] = name
    names_before[#names_before + 1] = call("HGET", key, name) or ""
    if value then
        call("HSET", key, name, value)
        call("SADD", tag .. "s", board)
    else
        call("HDEL", key, name)
        if call("EXISTS", key) == 0 then call("SREM", tag .. "s", board) end
    end
end

local function forget(board, name)
    local known = find(board, name)
    if known then
        name_it(board, name, false)
        call("RPUSH", tag .. "x", cmsgpack.pack({known.gen, after}))
        names[named(board, name)] = false
    end
end

for _, each in ipairs(fresh) do
    name_it(each[1], each[2], each[3].value)
    call("HSET", tag .. "g", each[3].gen, 1)
end
if #fresh > 0 then call("HSET", meta, "gens", gens) end

-- ------------------------------------------------------------------------------------ entries

local remembered = {} -- Field, value, ...: the record of this piece.

local function remember(field, value)
    remembered[#remembered + 1] = field
    remembered[#remembered + 1] = value
    pieces_bytes = pieces_bytes + #field + #value
end

local function say_score(gen, score)
    say(count_below(tag .. "d" .. gen, score))
    say(entries_with(gen, score))
end

-- Add a bucket for each bucket_players players, and move its share out of the bucket it splits.
local function grow(gen, players, buckets)
    while players > buckets * bucket_players do
        local size = 1
        while size < buckets + 1 do size = size * 2 end
        local source, target = bucket_key(gen, buckets - size / 2), bucket_key(gen, buckets)
        local entries, gone, come = call("HGETALL", source), {}, {}
        for i = 1, #entries, 2 do
            local hash = tonumber(sub(redis.sha1hex(state[5] .. entries[i]), 9, 16), 16)
            if bucket_of(hash, buckets + 1) == buckets then
                gone[#gone + 1] = entries[i]
                come[#come + 1] = entries[i]
                come[#come + 1] = entries[i + 1]
            end
        end
        call_many("HSET", target, come)
        call_many("HDEL", source, gone)
        buckets = buckets + 1
    end
    call("HSET", tag .. "g", gen, buckets)
end

-- Change the number of entries with these scores; return {score, before, after, ...}.
local function change_scores(gen, changes)
    local zset, further, before = tag .. "d" .. gen, tag .. "c" .. gen, {}
    for score, by in pairs(changes) do
        if by ~= 0 then
            local had = entries_with(gen, score)
            local has = had + by
            if had == 0 then call("ZADD", zset, 0, score) end
            if has == 0 then call("ZREM", zset, score) end
            if has > 1 then
                call("HSET", further, score, has - 1)
            elseif had > 1 then
                call("HDEL", further, score)
            end
            before[#before + 1] = score
            before[#before + 1] = had
            before[#before + 1] = has
        end
    end
    return before
end

for _, asked in ipairs(rankings) do
    local known = find(asked[1], asked[2])
    local wants, players, hashes, actions = asked[3], asked[4], asked[5], asked[6]
    local gen, width = known.gen, known.width
    local zset, beside = tag .. "z" .. gen, tag .. "i" .. gen
    local buckets = tonumber(call("HGET", tag .. "g", gen))
    local size = 1
    while size < buckets do size = size * 2 end

    -- The state before the piece.
    local total, olds, homes = call("ZCARD", zset), {}, {}
    say(total)
    for i, player in ipairs(players) do
        local number = hashes[i] % size
        if number >= buckets then number = hashes[i] % (size / 2) end
        local home = bucket_key(gen, number)
        local old = call("HGET", home, player)
        olds[i], homes[i] = old, home
        give(old)
        if old then
            local score = sub(old, 1, -9)
            if wants % 2 == 1 then say(call("ZRANK", zset, old .. player)) end
            if wants % 4 >= 2 then say(count_below(zset, score .. TIE_BREAK)) end
            if wants >= 4 then say_score(gen, score) end
        end
    end

    local news, shown = {}, {}
    for i, action in ipairs(actions) do
        news[i] = action == 1 and take()
        shown[i] = action == 1 and asked[7] and take()
    end
    for _ = 1, asked[8] do say(count_below(zset, take())) end
    for _ = 1, asked[9] do say_score(gen, take()) end
    local changes = {}
    if asked[10] then
        for _, by in ipairs(asked[10]) do changes[take()] = by end
    end

    -- The state after it.
    local removed, added, before = {}, {}, {}
    local any_beside = call("EXISTS", beside) == 1
    for i, player in ipairs(players) do
        local old, new = olds[i], news[i]
        if actions[i] ~= 0 and (old or new) then
            local was = any_beside and call("HGET", beside, player)
            local is = shown[i] and sub(shown[i], 1, 1) == "+" and sub(shown[i], 2)
            if old ~= new then
                if old then removed[#removed + 1] = old .. player end
                if new then
                    added[#added + 1] = 0
                    added[#added + 1] = new .. player
                    call("HSET", homes[i], player, new)
                else
                    call("HDEL", homes[i], player)
                end
                if known.dense and alone then
                    if old then changes[sub(old, 1, -9)] = (changes[sub(old, 1, -9)] or 0) - 1 end
                    if new then changes[sub(new, 1, -9)] = (changes[sub(new, 1, -9)] or 0) + 1 end
                end
            end
            if is then
                call("HSET", beside, player, is)
            elseif was then
                call("HDEL", beside, player)
            end
            if old ~= new or is ~= was then
                before[#before + 1] = player
                before[#before + 1] = old
                before[#before + 1] = new
                before[#before + 1] = was
            end
        end
    end
    call_many("ZREM", zset, removed)
    call_many("ZADD", zset, added)
    total = total - #removed + #added / 2
    if total > buckets * bucket_players then grow(gen, total, buckets) end
    local scores_before = known.dense and change_scores(gen, changes) or {}
    if not staging then
        if #before > 0 then remember("u" .. piece .. ":" .. gen, cmsgpack.pack(before)) end
        if #scores_before > 0 then
            remember("s" .. piece .. ":" .. gen, cmsgpack.pack(scores_before))
        end
    end
end

-- ---------------------------------------------------------------------------- end of the apply

if last then
    for i = 1, #left, 2 do
        local known = find(left[i], left[i + 1])
        if known and call("EXISTS", tag .. "z" .. known.gen) == 0 then forget(left[i], left[i + 1]) end
    end
    for i = 1, #dropped, 2 do forget(dropped[i], dropped[i + 1]) end
    for i = 1, #adopted, 4 do
        local draft = find(adopted[i], adopted[i + 1])
        forget(adopted[i + 2], adopted[i + 3])
        name_it(adopted[i], adopted[i + 1], false)
        name_it(adopted[i + 2], adopted[i + 3], draft.value)
    end
end

local told = answer("ok", last and not staging and through or at)

if not staging then
    remember("who", through .. " " .. mark)
    remember("r" .. piece, cmsgpack.pack({told[3], told[4], told[5]}))
    if #names_before > 0 then remember("n" .. piece, cmsgpack.pack(names_before)) end
    call_many("HSET", memory, remembered)
    if last then
        call("HSET", meta, "at", through, "bytes", tonumber(state[6] or "0") + pieces_bytes)
        call("HDEL", meta, "pending")
        call("RPUSH", tag .. "l", cmsgpack.pack({after, through, mark, pieces_bytes, piece}))
    else
        call("HSET", meta, "pending", cmsgpack.pack({through, mark, piece, pieces_bytes}))
    end
end

-- Forget old applies.
local bytes = last and not staging and tonumber(state[6] or "0") + pieces_bytes
if bytes then
    local applies, fewer = call("LLEN", tag .. "l"), false
    while applies > remembered_max or (bytes > bytes_max and applies > 1) do
        local oldest = cmsgpack.unpack(call("LPOP", tag .. "l"))
        call("UNLINK", tag .. "a" .. oldest[1])
        bytes, applies, fewer = bytes - oldest[4], applies - 1, true
    end
    if fewer then call("HSET", meta, "bytes", bytes) end
end

-- Free some keys of dropped rankings, once no read can ask for a position before they were dropped.
local free = released_max
while free > 0 do
    local leaving = call("LINDEX", tag .. "x", 0)
    if not leaving then break end
    leaving = cmsgpack.unpack(leaving)
    if leaving[2] ~= "" and call("EXISTS", tag .. "a" .. leaving[2]) == 1 then break end
    local released, all = release(leaving[1], free)
    free = free - released
    if all then call("LPOP", tag .. "x") end
end

call("HDEL", meta, "torn")
return told
