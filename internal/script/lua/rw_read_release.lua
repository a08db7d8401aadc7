-- Removes a reader from the lock, whatever its count. The last reader with a lease frees the
-- lock and wakes waiters.
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
-- The lock then lasts as long as the longest hold of another reader: a reader that dies keeps
-- writers out for its own lease, not for that of others. A writer's lease is only in the TTL
-- of the lock, so if there is a writer, the TTL stays as it is. If there are too many readers to
-- know that none is left, the release is announced as well: a waiter that wakes asks anyway.
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
