-- Reads what lies under a name, without changing it.
--
-- KEYS[1]  any key
-- ARGV[1]  how many fields a hash may have to be listed
--
-- {type, ttl, size, field, value, ...}
--   type  as TYPE says, 'none' if there is no such key
--   ttl   in ms, -1 if the key has none, -2 if there is no such key
--   size  the number of a hash's fields, 0 for other types
--   then the fields, if there are not too many
local kind = redis.call('type', KEYS[1]).ok
local reply = {kind, redis.call('pttl', KEYS[1]), 0}
if kind ~= 'hash' then return reply end
reply[3] = redis.call('hlen', KEYS[1])
if reply[3] > tonumber(ARGV[1]) then return reply end
for _, text in ipairs(redis.call('hgetall', KEYS[1])) do reply[#reply + 1] = text end
return reply
