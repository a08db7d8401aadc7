-- Reads the index of clients, without changing it.
--
-- KEYS[1]  the index: zset {client -> until when its record lasts, in ms of the server's clock}
-- ARGV[1]  how many clients to return at most
--
-- {client, ...}  those whose records last, the longest silent one first
if redis.call('type', KEYS[1]).ok ~= 'zset' then return {} end
local clock = redis.call('time')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
return redis.call('zrangebyscore', KEYS[1], '(' .. now, '+inf', 'limit', 0, ARGV[1])
