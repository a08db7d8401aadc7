-- Removes a writer from the lock, whatever its count, and wakes waiters. Readers with the same
-- owner in the process stay: then it is a read lock, which others may join.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]   channel
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1}          released
-- {2}          released, and threads of Redisson's listen
-- {1, reason}  released, but Redis refused to publish
-- {0}          the writer is not in the lock; nothing was changed
--
-- Message 1 wakes all sleeping threads of Redisson's. Threads that have just lost an attempt
-- and are about to sleep miss it. Message 0, which Redisson also reads from 00, is kept for
-- one of them; Redisson before 3.8.2 has no other message. Several threads of a client may be
-- about to sleep at once, but rarely more than ECHOES. A message that no thread needs costs a
-- client one attempt. Mortise's waiters need only the first message.
local ECHOES = 3

if redis.call('hexists', lock, owner) == 0 then return {0} end
local fields, all = entries()
local by, _, left, more = reader(fields, '')
all = all and not more
if by or not all then
  unbound()
  redis.call('hset', lock, 'mode', 'read')
  if left > 0 and all then redis.call('pexpire', lock, left) end
  redis.call('hdel', lock, owner)
else
  redis.call('del', lock)
end
local objection, theirs = announce('1', ARGV[3], 4)
for _ = 1, ECHOES do
  for i = 4, #ARGV do redis.pcall(ARGV[i], ARGV[3], '00') end
end
return {theirs and not objection and 2 or 1, objection}
