-- Reads the index of clients, without changing it.
--
-- KEYS[1]  the index: zset {client -> until when its record lasts, in ms of the server's clock}
-- ARGV[1]  how many clients to return at most
--
-- {n, client, ...}  how many clients there are at least, and those that are no longer than
--                   one of ours: the longest silent one first
local LONGEST = 64
if redis.call('type', KEYS[1]).ok ~= 'zset' then return {0} end
local clock = redis.call('time')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local clients = redis.call('zrangebyscore', KEYS[1], '(' .. now, '+inf', 'limit', 0, ARGV[1])
local reply = {#clients}
for _, client in ipairs(clients) do
  if #client <= LONGEST then table.insert(reply, client) end
end
return reply
