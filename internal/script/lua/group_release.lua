-- Releases fields of a group entirely, whatever their counts, and wakes waiters.
--
-- KEYS[1]     the group, see group.lua
-- ARGV[1]     owner
-- ARGV[2]     channel
-- ARGV[3]     how to publish: publish, spublish, both with a space between
-- ARGV[4..]   fields
--
-- {1}          released
-- {2}          released, and threads of Redisson's listen
-- {1, reason}  released, but Redis refused to publish
-- {0}          the owner did not hold all of them; it holds none of them any more
-- {0, reason}  the same, but Redis refused to publish
--
-- The release of any field is published. Fields held by others stay theirs; the owner's
-- entries from ended leases are removed.
local key, owner = KEYS[1], ARGV[1]
local fields = {unpack(ARGV, 4)}
local holders = redis.call('hmget', key, unpack(fields))
local had = 0
for i, field in ipairs(fields) do
  if holders[i] == owner then
    redis.call('hdel', key, field, entry(field, owner, 'expire_time'), entry(field, owner, 'lock_count'))
    had = had + 1
  else
    redis.call('hdel', key, entry(field, owner, 'expire_time'), entry(field, owner, 'lock_count'))
  end
end
local reply = {0}
if had == #fields then reply[1] = 1 end
if had > 0 then
  local way = string.match(ARGV[3], '%S+$')
  local theirs, r, g
  if way then theirs, r, g = redissons(ARGV[2], way, way) end
  local message, times = FREE, 0
  if theirs then message, times = left(r, g, FREE, string.match(owner, '^[^:]*:(%d+)')) end
  for command in string.gmatch(ARGV[3], '%S+') do
    local sent = redis.pcall(command, ARGV[2], message)
    if type(sent) == 'table' then reply[2] = sent.err end
  end
  if times > 0 and reply[1] == 1 and not reply[2] then reply[1] = 2 end
end
return reply
