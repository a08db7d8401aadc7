-- Releases a lock entirely, whatever its count, and wakes waiters.
--
-- KEYS[1]   the lock: hash {owner -> count}
-- ARGV[1]   owner
-- ARGV[2]   channel
-- ARGV[3..] how to publish: publish, spublish, or both
--
-- {1}          released
-- {1, reason}  released, but Redis refused to publish
-- {0}          the owner does not hold the lock; nothing was changed
--
-- The message is last and protected: were it to fail the script, the caller
-- would be told that nothing was released.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('del', KEYS[1])
local reply = {1}
for i = 3, #ARGV do
  local sent = redis.pcall(ARGV[i], ARGV[2], '0')
  if type(sent) == 'table' and sent.err then reply[2] = sent.err end
end
return reply
