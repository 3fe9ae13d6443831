-- drop: delete a partition of an index generation, some keys at a time; the first call ends it.
--
-- KEYS[1]  hash     the partition, see partition.lua
-- ARGV[1]  array    {how many keys to free in this call, lengths}
--
-- Returns {"more"} or {"done"}. O(keys freed). Safe to repeat, and to go on with after a crash.
-- Atomic because from the first call on no other script may use it.

if call("EXISTS", meta) == 0 then return {"done"} end
call("HSET", meta, "torn", "over")

local free = head[1]
while free > 0 do
    local some = call("HSCAN", tag .. "g", 0, "COUNT", 100)[2]
    if #some == 0 then break end
    for i = 1, #some, 2 do
        if free > 0 then free = free - release(some[i], free) end
    end
end
if free <= 0 then return {"more"} end

while free > 0 do
    local record = call("LPOP", tag .. "l")
    if not record then break end
    call("UNLINK", tag .. "a" .. cmsgpack.unpack(record)[1])
    free = free - 1
end
while free > 0 do
    local board = call("SPOP", tag .. "s")
    if not board then break end
    call("UNLINK", tag .. "n" .. board)
    free = free - 1
end
if free <= 0 then return {"more"} end
local at = call("HGET", meta, "at")
call("UNLINK", tag .. "l", tag .. "s", tag .. "g", tag .. "x", tag .. "a" .. at, meta)
return {"done"}
