-- Gives up one of several holds: sets the counts of fields that stay held.
--
-- KEYS[1]   the group, see group.lua
-- ARGV[1]   owner
-- ARGV[2]   the new count, absolute and at least 1
-- ARGV[3..] fields
--
-- {1}  done; the leases are as they were
-- {0}  the owner does not hold all of them; nothing was changed
local fields = {unpack(ARGV, 3)}
if not mine(KEYS[1], ARGV[1], fields) then return {0} end
unbound(KEYS[1])
for _, field in ipairs(fields) do
  redis.call('hset', KEYS[1], entry(field, ARGV[1], 'lock_count'), ARGV[2])
end
return {1}
