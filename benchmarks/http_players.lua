-- For wrk: ask for 100,000 players in turn, so that no request line is one that was just seen.
local player = 0
request = function()
    player = (player + 7919) % 100000
    return wrk.format("GET", "/v1/boards/global/standings/player" .. player)
end
