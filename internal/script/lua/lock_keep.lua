-- Releases a lock, but leaves it taken for a while: another name takes the place of its owner,
-- so that nobody holds it, and no late copy of a script of the owner changes it.
--
-- KEYS[1]  the lock: hash {owner -> count}, of any kind that is a hash with a field for its
--          owner
-- ARGV[1]  owner
-- ARGV[2]  the name in its place
-- ARGV[3]  how long it stays taken, in ms
-- ARGV[4]  'longer' if it is to last no less than it would anyway
--
-- {1}  released, by this call or by an earlier copy of it
-- {0}  the owner does not hold the lock; nothing was changed
--
-- A TTL is not cut if the hash has other owners, which only other programs write. A repeat does
-- not lengthen it: it may be late.
--
-- The first command lets the others write when Redis is out of memory, since it removes
-- something, if there were such a field.
redis.call('hdel', KEYS[1], '')
local now = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if now then
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('hdel', KEYS[1], ARGV[1])
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return {0}
end
local size = redis.call('hlen', KEYS[1])
local alone = size == 1 or size == 2 and redis.call('hexists', KEYS[1], 'mode') == 1
local lasts, left = tonumber(ARGV[3]), redis.call('pttl', KEYS[1])
if left < 0 or left > lasts and alone and ARGV[4] ~= 'longer' or left < lasts and now then
  redis.call('pexpire', KEYS[1], ARGV[3])
end
return {1}
