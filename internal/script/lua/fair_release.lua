-- Releases a fair lock entirely, whatever its count, and wakes the next. An
-- owner that does not hold the lock leaves the queue, if it is in there.
--
-- KEYS, ARGV[1..4]  as in fair.lua
-- ARGV[5]  owner
--
-- {1}          released
-- {1, reason}  released, but Redis refused to publish
-- {0}          the owner did not hold the lock, and does not wait for it
local owner = ARGV[5]
local reply = {redis.call('hexists', lock, owner)}
if reply[1] == 1 then
  redis.call('del', lock)
elseif redis.call('zscore', deadlines, owner) or redis.call('sismember', ours, owner) == 1 then
  local waiters, behind = redis.call('lrange', queue, 0, -1), nil
  for i, waiter in ipairs(waiters) do
    if behind then behind[#behind + 1] = waiter elseif waiter == owner then behind = {} end
  end
  if behind then advance(behind) end
  redis.call('lrem', queue, 0, owner)
  redis.call('zrem', deadlines, owner)
  redis.call('srem', ours, owner)
  redis.call('hdel', signs, '?' .. owner)
end
if redis.call('exists', lock) == 0 then
  if reply[1] == 1 then redis.call('hdel', signs, 'told') end -- that was of another time
  head('', true)
  if reply[1] == 1 then reply[2] = objection end
end
return reply
