-- Reads the owners of fields of a group.
--
-- KEYS[1]   the group, see group.lua
-- ARGV[1..] fields
--
-- {0}                        there is no such key
-- {-1}                       the key is a hash, but not a group
-- {1, owner, left, count...} for each field its owner, the rest of its lease in ms, and
--                            the count; '', 0, '' if the field is free
local size = redis.call('hlen', KEYS[1])
if size == 0 then return {0} end
if other(KEYS[1], size) then return {-1} end
local now = clock()
local holders = redis.call('hmget', KEYS[1], unpack(ARGV))
local reply = {1}
for i, field in ipairs(ARGV) do
  local holder = holders[i]
  local left = holder and ends(KEYS[1], field, holder) - now or 0
  if left > 0 then
    reply[#reply + 1] = holder
    reply[#reply + 1] = left
    reply[#reply + 1] = redis.call('hget', KEYS[1], entry(field, holder, 'lock_count')) or '0'
  else
    reply[#reply + 1] = ''
    reply[#reply + 1] = 0
    reply[#reply + 1] = ''
  end
end
return reply
