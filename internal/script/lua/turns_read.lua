-- Reads the turns of a lock, and how many clients of Redisson's listen, without changing
-- anything.
--
-- KEYS[1]  the turns: zset {entry -> when it came, in µs}
-- ARGV[1]  how to count listeners: numsub or shardnumsub; '' if they cannot be counted
-- ARGV[2]  how many entries to return at most
-- ARGV...  the channels on which Redisson announces releases
--
-- {listeners, entry, ...}  listeners is -1 if it is unknown; entries are cut to 200 bytes
local listeners = ARGV[1] == '' and -1 or 0
for i = 3, #ARGV do
  if listeners >= 0 then
    local n = redis.pcall('pubsub', ARGV[1], ARGV[i], 'mortise:heeds:' .. ARGV[i])
    listeners = n.err and -1 or listeners + math.max(n[2] - n[4], 0)
  end
end
local reply = {listeners}
if redis.call('type', KEYS[1]).ok ~= 'zset' then return reply end
for _, entry in ipairs(redis.call('zrange', KEYS[1], 0, ARGV[2] - 1)) do
  if entry ~= '~' then table.insert(reply, string.sub(entry, 1, 200)) end -- that is no client's, see turns.lua
end
return reply
