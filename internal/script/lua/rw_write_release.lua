-- Takes a writer out of the lock, whatever its count, and wakes waiters. Readers
-- of the same line of work stay: then it is a read lock, which others may join.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]   channel
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1}          released
-- {1, reason}  released, but Redis refused to publish
-- {0}          the writer is not in the lock; nothing was changed
if redis.call('hexists', lock, owner) == 0 then return {0} end
local by, _, left = reader(redis.call('hgetall', lock), '')
if by then
  redis.call('hset', lock, 'mode', 'read')
  if left > 0 then redis.call('pexpire', lock, left) end
  redis.call('hdel', lock, owner)
else
  redis.call('del', lock)
end
return {1, announce('1', ARGV[3], 4)}
