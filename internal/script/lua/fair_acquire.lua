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
-- {0, ttl, owner, count, again, waiting, since, mixed, passed}
--        held by owner, or free for owner with count 0; owners are cut to 200 bytes
--          ttl      of the lock in ms, -1 if it has none
--          again    in how many ms something may change without a message; or 0
--          waiting  the length of the queue
--          since    in microseconds since the epoch, if this call queued it; else 0
--          mixed    1 if a thread of Redisson's holds the lock or waits for it
--          passed   how many dead waiters this call has dropped
-- {-1}   the key is a hash, but not a plain lock
--
-- The owner leaves the queue last: if it does not get the lock, it must keep its position.
local owner, lease, mode = ARGV[7], tonumber(ARGV[8]), ARGV[9]
local fields = redis.call('hlen', lock)
if fields > 1 then return {-1} end
local reply = {0, 0, '', 0, 0, 0, 0, 0, 0}
if fields == 1 then
  local holder = redis.call('hgetall', lock)
  reply[2] = redis.call('pttl', lock)
  if holder[1] == owner then
    if reply[2] < lease then redis.call('pexpire', lock, lease) end
    return {2, 0}
  end
  reply[3], reply[4] = string.sub(holder[1], 1, 200), math.max(tonumber(holder[2]) or 0, 0)
  if reply[4] == 0 then reply[4] = -1 end -- it is held nevertheless
else
  local first, again, at = head(owner, true)
  if not first or first == owner then
    redis.call('hset', lock, owner, 1)
    local limited = redis.pcall('pexpire', lock, lease)
    if limited ~= 1 then
      redis.call('del', lock)
      return limited
    end
    if first then
      local objects = take(owner, at)
      if objects then
        redis.call('del', lock)
        return objects
      end
      redis.call('hdel', ours, owner)
      redis.call('zrem', deadlines, owner)
      local told = string.match(redis.call('hget', signs, 'told') or '', '[ !](%S+)$')
      if told == owner then return {2, passed} end
    end
    return {1, passed}
  end
  reply[9] = passed
  reply[3], reply[5] = string.sub(first, 1, 200), again
end
if mode == 'once' then
  reply[6] = redis.call('llen', queue)
  return reply
end
local fresh = mode == 'again' and not redis.call('zscore', deadlines, owner) -- not in the queue any more
if fresh then leave(owner) end
local new = redis.call('hset', ours, owner, string.format('%.0f ', now) .. ARGV[10]) == 1
fresh = fresh or mode == 'queue' and new
local waiting, others = count()
if fresh then
  others = others + 1 -- ours already contains it
  local deadline = now + ARGV[11] + math.max(others, 0) * step
  if others > 0 then
    local last = redis.call('lindex', queue, -1)
    local before = math.min(tonumber(redis.call('zscore', deadlines, last) or '') or 0, now + DAY)
    deadline = math.max(deadline, before + (foreign(last) and ARGV[11] or 0))
  end
  local known = redis.call('hset', signs, client(owner), now + ALIVE)
  redis.call('zadd', deadlines, string.format('%.0f', deadline), owner)
  local queued = redis.pcall('rpush', queue, owner)
  if type(queued) == 'table' then
    redis.call('zrem', deadlines, owner)
    return queued
  end
  if known == 1 then redis.call('pexpire', signs, KEPT) end
  if waiting == 0 then
    redis.call('pexpire', queue, DAY)
    redis.call('pexpire', deadlines, DAY)
  end
  waiting = queued
  reply[7] = clock[1] * 1000000 + clock[2]
end
reply[6] = waiting
if waiting - others <= 1 then redis.call('pexpire', ours, KEPT) end
if others > 0 or reply[4] ~= 0 and foreign(reply[3]) then reply[8] = 1 end
return reply
