-- Reads the turns of a lock, and whether threads of Redisson's listen, without changing anything.
--
-- KEYS[1]  the turns: zset {entry -> when it came, in µs}
-- KEYS[2]  the channel on which Redisson announces releases
-- ARGV[1]  how to count listeners: numsub or shardnumsub; '' if they cannot be counted
-- ARGV[2]  how many entries to return at most
--
-- {listeners, entry, ...}  listeners is -1 if it is unknown
local listeners = -1
if ARGV[1] ~= '' then
  local n = redis.pcall('pubsub', ARGV[1], KEYS[2], 'mortise:heeds:' .. KEYS[2])
  if not n.err then listeners = math.max(n[2] - n[4], 0) end
end
local reply = {listeners}
if redis.call('type', KEYS[1]).ok ~= 'zset' then return reply end
for _, entry in ipairs(redis.call('zrange', KEYS[1], 0, ARGV[2] - 1)) do
  table.insert(reply, string.sub(entry, 1, 200))
end
return reply
