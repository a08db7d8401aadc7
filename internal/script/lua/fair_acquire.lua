-- Acquires a fair lock for an owner that acquires it only once, or queues the owner.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7]  owner
-- ARGV[8]  lease in ms
-- ARGV[9]  'once' if it does not queue, 'queue' if it does, 'again' if it has queued
-- ARGV[10] its nonce from now on; nothing if the lock cannot be granted to it
-- ARGV[11] how far ahead its deadline must be, in ms
--
-- {1, passed}  acquired, or acquired by an earlier copy of this call
-- {2, passed}  acquired after its turn had come: the lock was granted to it, or it was notified
--              that the lock is free; or acquired by an earlier copy
-- {0, ttl, owner, count, waiting, since}
-- {0, ttl, owner, count, waiting, since, again, mixed, passed}
--        held by owner, or free for owner with count 0; owners are cut to 200 bytes
--          ttl      of the lock in ms, -1 if it has none
--          waiting  the length of the queue
--          since    in microseconds since the epoch, if this call queued it; else 0
--        the others are left out if all are 0
--          again    in how many ms something may change without a message; or 0
--          mixed    1 if a thread of Redisson's holds the lock or waits for it
--          passed   how many dead waiters this call has dropped
-- {-1}   the key is a hash, but not a plain lock
--
-- The owner leaves the queue last: if it does not get the lock, it must keep its position.
local owner, lease, mode = ARGV[7], tonumber(ARGV[8]), ARGV[9]
local fields = redis.call('hlen', lock)
if fields > 1 then return {-1} end
local ttl, by, held, again, since, mixed = 0, nil, 0, 0, 0, 0
if fields == 1 then
  local holder = redis.call('hgetall', lock)
  ttl = redis.call('pttl', lock)
  if holder[1] == owner then
    if ttl < lease then redis.call('pexpire', lock, lease) end
    return {2, 0}
  end
  by, held = holder[1], math.max(tonumber(holder[2]) or 0, 0)
  if held == 0 then held = -1 end -- it is held nevertheless
else
  local head, at = judge(), nil
  by, again, at = head(owner, true)
  if not by or by == owner then
    redis.call('hset', lock, owner, 1)
    local limited = redis.pcall('pexpire', lock, lease)
    if limited ~= 1 then
      redis.call('del', lock)
      return limited
    end
    if by then
      local objects = take(owner, at)
      if objects then
        redis.call('del', lock)
        return objects
      end
      redis.call('hdel', ours, owner)
      redis.call('zrem', deadlines, owner)
      local told = string.match(redis.call('hget', signs, 'told') or '', '^%d+ %d+[ !](%S+)$')
      if told == owner then return {2, passed} end
    end
    return {1, passed}
  end
end
if mode == 'once' then
  return {0, ttl, string.sub(by, 1, 200), held, redis.call('llen', queue), 0, again, 0, passed}
end
local fresh = mode == 'again' and not redis.call('zscore', deadlines, owner) -- not in the queue any more
if fresh then
  local _, leave = judge()
  leave(owner)
end
local new = redis.call('hset', ours, owner, string.format('%.0f %s', now, ARGV[10])) == 1
fresh = fresh or mode == 'queue' and new
local waiting
if fresh then
  redis.call('zadd', deadlines, string.format('%.0f', now + ARGV[11]), owner)
  waiting = redis.pcall('rpush', queue, owner)
  if type(waiting) == 'table' then
    redis.call('zrem', deadlines, owner)
    return waiting
  end
  if waiting == 1 then
    redis.call('pexpire', queue, DAY)
    redis.call('pexpire', deadlines, DAY)
  end
  since = clock[1] * 1000000 + clock[2]
end
waiting = waiting or redis.call('llen', queue)
local others = waiting - redis.call('hlen', ours)
if fresh and others > 0 then -- its deadline has to be later
  local last = redis.call('lindex', queue, -2)
  local before = tonumber(redis.call('zscore', deadlines, last) or '') or 0
  if before > FAR then before = 0 end
  local deadline = math.max(now + ARGV[11] + others * ARGV[4], before + (foreign(last) and ARGV[11] or 0))
  redis.call('zadd', deadlines, string.format('%.0f', deadline), owner)
end
if waiting - others <= 1 then redis.call('pexpire', ours, KEPT) end
if others > 0 or held ~= 0 and foreign(by) then mixed = 1 end
local reply = {0, ttl, string.sub(by, 1, 200), held, waiting, since}
if again > 0 or mixed > 0 or passed > 0 then reply[7], reply[8], reply[9] = again, mixed, passed end
return reply
