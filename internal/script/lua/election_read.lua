-- Reads the leader, without changing anything.
--
-- KEYS[1], ARGV[1]  as in election.lua
--
-- {0}                           there is no leader
-- {1, owner, term, value, edition, ttl}  ttl in ms, -1 if the key has none; the
--                               value is cut to the longest that is allowed
-- {-1}                          the key is a hash, but not an election
local taken = led()
if taken == nil then return {-1} end
if not taken then return {0} end
local now = redis.call('hmget', key, 'term', 'value', 'edition')
return {1, leader(), tonumber(now[1]) or 0, string.sub(now[2] or '', 1, 65536), tonumber(now[3]) or 0, redis.call('pttl', key)}
