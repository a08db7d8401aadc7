-- Sets the counts of fields that the owner holds, and extends their leases.
--
-- KEYS[1]   the group, see group.lua
-- ARGV[1]   owner
-- ARGV[2]   the new count, absolute, so that a repeat changes nothing; 0 if it stays as it is
-- ARGV[3]   lease in ms; a longer one that is already set stays
-- ARGV[4..] fields
--
-- {1}  done
-- {0}  the owner does not hold all of them; nothing was changed
local key, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[3])
local fields = {unpack(ARGV, 4)}
if not mine(key, owner, fields) then return {0} end
local now = clock()
unbound(key)
last(key, lease, now)
for _, field in ipairs(fields) do
  redis.call('hset', key, entry(field, owner, 'expire_time'), ms(math.max(ends(key, field, owner), now + lease)))
  if ARGV[2] ~= '0' then redis.call('hset', key, entry(field, owner, 'lock_count'), ARGV[2]) end
end
return {1}
