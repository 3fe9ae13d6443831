-- read: answer questions about rankings, all as of one position; change nothing.
--
-- KEYS[1]  hash     the partition, see partition.lua
-- ARGV[1]  array    asked     string: the position to answer as of, '' for the partition's own
--                   whereto   string: the position that a remembered apply followed, or ''
--                   boards    {board, ...} whose rankings are to be listed; true for all boards,
--                             whose names then come first
--                   rankings  {board, name, players, hashes, shown, ranked, places, scores,
--                              first, from, limit, samples}, ...
--                             shown    true if metadata is asked for
--                             ranked   true if the players' places are to be counted
--                             places, scores  how many are to be counted
--                             first    a page from this offset, -1 for none
--                             from     true for a page from a place
--                             limit    how many entries a page has
--                             samples  how many entries to pick between two places
--                   lengths
-- ARGV[2]  bytes    for each ranking: the places, the scores, where a page begins, between which
--                   two places samples lie ('' for the end)
--
-- Returns {"ok", position, numbers, sizes, strings, pending}; pending is the target position of an
-- apply that is partly taken, else ''. First, if requested, the target position of the apply at
-- whereto and its mark; then each board: how many names, each with its value; then for each ranking
-- 0 if there is none, else 1 and
--   its total, key bytes, and whether it is dense; the changes since the asked position: entries
--   (player, order key then, order key now, metadata then) and scores (score, entries then, now);
--   if metadata is asked for, whether there is any; for each player its order key or none,
--   metadata, place; the counts of the places; of the scores; how many entries of the page, each
--   with its metadata; samples: how many entries come before the first and the second place, how
--   many samples, each with its offset.
-- Totals, places, counts and pages are current: the caller corrects them by the changes.
-- {"behind", position}: that position is not reached yet. {"forgot", position}: it is no longer
-- remembered. {"gone"}: there is no such index generation.
--
-- O(log n) for each query. Atomic because all answers have to be of one position.

local asked, whereto, boards, rankings = head[1], head[2], head[3], head[4]

local state = call("HMGET", meta, "at", "torn", "pending")
local at = state[1]
if not at or state[2] then return {"gone"} end
local pending = state[3] and cmsgpack.unpack(state[3])

-- --------------------------------------------------------------- changes since the asked position

-- The applies since the asked position, oldest first: {after, pieces}.
local since = {}
if asked ~= "" and asked ~= at then
    local log, found = call("LRANGE", tag .. "l", 0, -1), false
    for i = 1, #log do
        local record = cmsgpack.unpack(log[i])
        found = found or record[1] == asked
        if found then since[#since + 1] = {record[1], record[5]} end
    end
    if not found then
        local ahead = #asked > #at or (#asked == #at and asked > at)
        return {ahead and "behind" or "forgot", at}
    end
end
if pending then since[#since + 1] = {at, pending[3]} end

-- Call act with each record of the applies since that has this name, oldest first.
local function each_kept(kind, suffix, act)
    for _, record in ipairs(since) do
        for piece = 1, record[2] do
            local kept = call("HGET", tag .. "a" .. record[1], kind .. piece .. suffix)
            if kept then act(cmsgpack.unpack(kept)) end
        end
    end
end

local names_then = {}
each_kept("n", "", function(kept)
    for i = 1, #kept, 3 do
        local names = names_then[kept[i]] or {}
        names_then[kept[i]] = names
        if names[kept[i + 1]] == nil then names[kept[i + 1]] = kept[i + 2] end
    end
end)

local function find(board, name)
    local before = names_then[board] and names_then[board][name]
    if before == "" then return false end
    return before or call("HGET", tag .. "n" .. board, name)
end

local function tell_difference(gen)
    local place, kept = #numbers + 1, 0
    say(0)
    each_kept("u", ":" .. gen, function(before)
        for i = 1, #before do give(before[i]) end
        kept = kept + #before / 4
    end)
    numbers[place] = kept
    place, kept = #numbers + 1, 0
    say(0)
    each_kept("s", ":" .. gen, function(before)
        for i = 1, #before, 3 do
            give(before[i])
            say(before[i + 1])
            say(before[i + 2])
        end
        kept = kept + #before / 3
    end)
    numbers[place] = kept
end

-- --------------------------------------------------------------------------------------- names

local function list(board)
    local there = {}
    local now = call("HGETALL", tag .. "n" .. board)
    for i = 1, #now, 2 do there[now[i]] = now[i + 1] end
    for name, before in pairs(names_then[board] or {}) do
        there[name] = before ~= "" and before or nil
    end
    local place, count = #numbers + 1, 0
    say(0)
    for name, value in pairs(there) do
        give(name)
        give(value)
        count = count + 1
    end
    numbers[place] = count
end

if whereto ~= "" then
    local who = call("HGET", tag .. "a" .. whereto, "who")
    if not who and pending and whereto == at then who = pending[1] .. " " .. pending[2] end
    give(who)
end
if boards == true then
    boards = call("SMEMBERS", tag .. "s")
    for board in pairs(names_then) do boards[#boards + 1] = board end
    say(#boards)
    for _, board in ipairs(boards) do give(board) end
end
for _, board in ipairs(boards) do list(board) end

-- ------------------------------------------------------------------------------------ rankings

local function tell_page(entries, width, beside)
    say(#entries)
    for _, entry in ipairs(entries) do
        give(entry)
        if beside then give(call("HGET", beside, sub(entry, width + 1))) end
    end
end

local function tell_samples(zset, count)
    local low, high = take(), take()
    local first = count_below(zset, low)
    local beyond = high == "" and call("ZCARD", zset) or count_below(zset, high)
    say(first)
    say(beyond)
    local some = math.min(count, math.max(0, beyond - first))
    say(some)
    for i = 1, some do
        local place = first + floor((beyond - first) * (2 * i - 1) / (2 * some))
        say(place)
        give(call("ZRANGE", zset, place, place)[1])
    end
end

for _, question in ipairs(rankings) do
    local value = find(question[1], question[2])
    if not value then
        say(0)
        for _ = 1, question[7] + question[8] do take() end
        if question[10] then take() end
        if question[12] > 0 then take() take() end
    else
        local gen, width, dense = string.match(value, "^(%d+):(%d+):(%d)$")
        local zset, beside = tag .. "z" .. gen, question[5] and tag .. "i" .. gen
        width = tonumber(width)
        say(1)
        say(call("ZCARD", zset))
        say(width)
        say(tonumber(dense))
        tell_difference(gen)
        if beside then
            local any = call("EXISTS", beside)
            say(any)
            beside = any == 1 and beside
        end
        local players, hashes = question[3], question[4]
        if #players > 0 then
            local buckets = tonumber(call("HGET", tag .. "g", gen))
            local size = 1
            while size < buckets do size = size * 2 end
            for i, player in ipairs(players) do
                local number = hashes[i] % size
                if number >= buckets then number = hashes[i] % (size / 2) end
                local key = call("HGET", bucket_key(gen, number), player)
                give(key)
                if key then
                    if beside then give(call("HGET", beside, player)) end
                    if question[6] then say(call("ZRANK", zset, key .. player)) end
                end
            end
        end
        for _ = 1, question[7] do say(count_below(zset, take())) end
        for _ = 1, question[8] do say(count_below(tag .. "d" .. gen, take())) end
        local limit = question[11]
        if question[9] >= 0 then
            local first = question[9]
            tell_page(limit > 0 and call("ZRANGE", zset, first, first + limit - 1) or {}, width, beside)
        end
        if question[10] then
            local from = take()
            from = from == "" and "-" or "[" .. from
            tell_page(call("ZRANGEBYLEX", zset, from, "+", "LIMIT", 0, limit), width, beside)
        end
        if question[12] > 0 then tell_samples(zset, question[12]) end
    end
end

local told = answer("ok", at)
told[6] = pending and pending[1] or ""
return told
