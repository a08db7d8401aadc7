-- Gives up one of several holds of a reader: sets its count.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]  the new count, absolute and at least 1
--
-- {1}  done; the lease is as it was
-- {0}  the reader is not in the lock; nothing was changed
if redis.call('hexists', lock, owner) == 0 then return {0} end
discard(owner, ARGV[3] + 1)
redis.call('hset', lock, owner, ARGV[3])
return {1}
