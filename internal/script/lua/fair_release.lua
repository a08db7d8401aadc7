-- Releases a fair lock entirely, whatever its count, and gives it to the next or
-- wakes that one. An owner that does not hold the lock leaves the queue, if it is
-- in there.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7]  owner
--
-- {1}          released
-- {1, reason}  released, but Redis refused to publish
-- {0}          the owner did not hold the lock, and does not wait for it
local owner = ARGV[7]

-- Gives the lock, which is free, to the head of the queue, if that is one of ours
-- that lives and listens. Returns whether it did.
local function give()
  local first = redis.call('lindex', queue, 0)
  if not first or not directed(first) then return false end
  local told = redis.call('hmget', signs, client(first), '-' .. first)
  local till = tonumber(told[1] or '')
  if told[2] or not till or till <= now then return false end
  if redis.pcall('hset', lock, first, 1) ~= 1 then return false end
  if redis.pcall('pexpire', lock, GIVEN) ~= 1 or type(redis.pcall('lpop', queue)) == 'table' then
    redis.call('hdel', lock, first)
    return false
  end
  local heard = redis.pcall(ARGV[6], ARGV[5] .. client(first), first .. ' 1')
  if type(heard) == 'table' or heard == 0 then
    redis.call('lpush', queue, first)
    redis.call('hdel', lock, first)
    return false
  end
  redis.call('srem', ours, first)
  redis.call('zrem', deadlines, first)
  advance()
  return true
end

local reply = {redis.call('hdel', lock, owner)}
if reply[1] == 0 and (redis.call('zscore', deadlines, owner) or redis.call('sismember', ours, owner) == 1) then
  if redis.call('llen', queue) > redis.call('scard', ours) then advance(behind(owner)) end
  redis.call('lrem', queue, 0, owner)
  redis.call('zrem', deadlines, owner)
  redis.call('srem', ours, owner)
  redis.call('hdel', signs, '?' .. owner, '-' .. owner)
end
if (reply[1] == 1 or redis.call('exists', lock) == 0) and not give() then
  if reply[1] == 1 then redis.call('hdel', signs, 'told') end -- that was of another time
  head('', true)
  if reply[1] == 1 then reply[2] = objection end
end
return reply
