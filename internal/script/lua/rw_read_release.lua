-- Takes a reader out of the lock, whatever its count. The last one of those that
-- have a lease frees it, and wakes waiters.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]   channel
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1}          released
-- {2}          released, and threads of Redisson's listen
-- {1, reason}  released, but Redis refused to publish
-- {0}          the reader is not in the lock; nothing was changed
--
-- The lock then lasts as long as the longest hold of another reader: whoever of
-- them dies keeps writers out for its own lease and not for that of others. A
-- writer's lease is nowhere but in the TTL of the lock, so beside a writer that
-- stays as it is. Where there are too many readers to know that none is left, it
-- is announced as well: whoever waits looks.
if redis.call('hexists', lock, owner) == 0 then return {0} end
local fields, all = entries()
local how = mode()
discard(owner, 1)
if how == 'write' and (writer(fields) or not all) then
  redis.call('hdel', lock, owner)
  return {1}
end
local other, _, left, more = reader(fields, owner)
all = all and not more
if other or not all then
  if left > 0 and all then redis.call('pexpire', lock, left) end
  redis.call('hdel', lock, owner)
  if other then return {1} end
else
  redis.call('del', lock)
end
local objection, theirs = announce('0', ARGV[3], 4)
return {theirs and not objection and 2 or 1, objection}
