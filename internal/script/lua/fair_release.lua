-- Releases a fair lock entirely, whatever its count, and gives it to the next or
-- wakes that one. An owner that does not hold the lock leaves the queue, if it is
-- in there.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7]  owner
--
-- {1, again}          released
-- {1, again, reason}  released, but Redis refused to publish
-- {0, again}          the owner did not hold the lock, and does not wait for it
--
-- again  in so many ms somebody is to look whether the next one has taken the
--        lock: threads of Redisson's wait, and do not look by themselves; or 0
local owner = ARGV[7]

-- Gives the lock, which is free, to the head of the queue, if that is one of ours
-- that lives and listens. Returns whether it did.
local function give()
  if ARGV[6] == '' then return false end
  local at, first, asked, nonce = 0
  repeat -- past those who wait for another lock
    first = redis.call('lindex', queue, at)
    if not first or foreign(first) or at == SLICE then return false end
    asked, nonce = entry(first)
    if not asked then at = at + 1 end
  until asked
  if not nonce then return false end
  local till = tonumber(redis.call('hget', signs, client(first)) or '')
  if not till or till <= now then return false end
  if redis.pcall('hset', lock, first, 1) ~= 1 then return false end
  if redis.pcall('pexpire', lock, GIVEN) ~= 1 or take(first, at) then
    redis.call('hdel', lock, first)
    return false
  end
  local heard = redis.pcall(ARGV[6], ARGV[5] .. client(first), first .. ' ' .. nonce)
  if type(heard) == 'table' or heard == 0 then
    redis.call('lpush', queue, first)
    redis.call('pexpire', queue, DAY) -- it may have been the only one
    redis.call('hdel', lock, first)
    return false
  end
  redis.pcall('hdel', ours, first) -- it has the lock, whatever lies there
  redis.pcall('zrem', deadlines, first)
  return true
end

local reply = {redis.call('hdel', lock, owner), 0}
if reply[1] == 0 and (redis.call('zscore', deadlines, owner) or mine(owner)) then
  leave(owner)
  redis.call('hdel', ours, owner)
  redis.call('hdel', signs, '?' .. owner)
end
if reply[1] == 1 or redis.call('exists', lock) == 0 then
  local again = GIVEN
  if not give() then
    if reply[1] == 1 then redis.call('hdel', signs, 'told') end -- that was of another time
    again = select(2, head('', true))
    if reply[1] == 1 then reply[3] = objection end
  end
  local _, others = count()
  if others > 0 then reply[2] = again end
end
return reply
