-- Releases a fair lock entirely, whatever its count, and grants it to the next waiter or
-- wakes that one. An owner that does not hold the lock leaves the queue, if it is in there.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7..]  owners, in the order of the queue
--
-- 31                                the same as {1, 0, 1, 0}
-- {1, again, done, passed}          released
-- {1, again, done, passed, reason}  released, but Redis refused to publish
-- {0, again, done, passed}          none of the owners held the lock; they do not wait for it
--                                   any more
--
-- again  in how many ms a client has to check whether the next waiter has taken the lock:
--        threads of Redisson's wait, and do not check themselves; or 0
-- done   how many of the owners were handled, from the first one on; the others would take
--        too long
-- passed how many dead waiters this call has dropped
--
-- A number costs a client less than an array does. No other script returns this number.

-- Grants the free lock to the head of the queue, if that is one of ours, is alive and
-- listens. Returns whether it did.
local function give()
  if ARGV[6] == '' then return false end
  local at, first, asked, nonce = 0
  repeat -- skip the waiters for another lock
    first = redis.call('lindex', queue, at)
    if not first or foreign(first) or at == SLICE then return false end
    asked, nonce = entry(first)
    if not asked then at = at + 1 end
  until asked
  if not nonce then return false end
  local to = client(first)
  if now - asked >= ALIVE then -- else it has shown life when it asked
    local till = tonumber(redis.call('hget', signs, to) or '')
    if not till or till <= now then return false end
  end
  -- Listeners are counted before the message is sent, and what it grants is not taken back: it also reaches clients that
  -- listen to a replica, as after a failover, and PUBLISH does not count them.
  local listeners = redis.pcall('pubsub', ARGV[6] == 'spublish' and 'shardnumsub' or 'numsub', ARGV[5] .. to)
  if not listeners.err and listeners[2] == 0 then return false end
  if redis.pcall('hset', lock, first, '1') ~= 1 then return false end
  if redis.pcall('pexpire', lock, GIVEN) ~= 1 or take(first, at) then
    redis.call('hdel', lock, first)
    return false
  end
  if type(redis.pcall(ARGV[6], ARGV[5] .. to, first .. ' ' .. nonce)) == 'table' then
    redis.call('lpush', queue, first)
    redis.call('pexpire', queue, DAY) -- it may have been the only one
    redis.call('hdel', lock, first)
    return false
  end
  redis.pcall('hdel', ours, first) -- it holds the lock, whatever its entry says
  redis.pcall('zrem', deadlines, first)
  return true
end

local released, recheck, done, searched = 0, 0, 0, 0
local head, leave, mine
for i = 7, #ARGV do
  local owner = ARGV[i]
  if redis.call('hdel', lock, owner) == 1 then
    released = 1
  else
    if not head then head, leave, mine = judge() end
    if redis.call('zscore', deadlines, owner) or mine(owner) then
      if searched >= LONG then break end
      searched = searched + leave(owner)
      redis.call('hdel', ours, owner)
      redis.call('hdel', signs, '?' .. owner)
    end
  end
  done = done + 1
end
if released == 1 or redis.call('exists', lock) == 0 then
  -- Redis expires a key after the millisecond in which it ends, and the client's clock may be
  -- the faster one: a check that finds the grant unexpired would be the last.
  local again = GIVEN + 50
  if not give() then
    if released == 1 then redis.call('hdel', signs, 'told') end -- belongs to an earlier release
    head = head or judge()
    again = select(2, head('', true))
  end
  local _, others = count()
  if others > 0 then recheck = again end
end
if released == 0 then return {0, recheck, done, passed} end
if recheck == 0 and done == 1 and passed == 0 and not objection then return 31 end
return {1, recheck, done, passed, objection}
