-- Shows that a client lives, keeps its waiters in the queue, and looks whether
-- the head of the queue still does.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7]   client
-- ARGV[8..] some of its waiters, in the order of the queue, the first one first
--
-- {again, mixed, waiter, ...}
--   again  in so many ms there may be news that nobody publishes; or 0
--   mixed  1 if a thread of Redisson's has, or waits for, the lock
--   then those of the waiters that should ask for the lock: it is free for
--   them, or they are not in the queue any more
redis.call('hset', signs, ARGV[7], now + ALIVE)
redis.call('pexpire', signs, KEPT)
redis.call('pexpire', ours, KEPT)
redis.call('pexpire', queue, DAY)
redis.call('pexpire', deadlines, DAY)
local reply = {0, 0}
local short = redis.call('llen', queue) <= 100 and redis.call('lrange', queue, 0, -1)
local present = {}
for _, waiter in ipairs(short or {}) do present[waiter] = true end
for i = 8, #ARGV do
  local deadline = tonumber(redis.call('zscore', deadlines, ARGV[i]) or '')
  if not deadline or (short and not present[ARGV[i]]) then
    if deadline and redis.call('hexists', lock, ARGV[i]) == 0 then redis.call('zrem', deadlines, ARGV[i]) end
    reply[#reply + 1] = ARGV[i]
  else
    local least = now + (i - 6) * step
    if deadline < least then redis.call('zadd', deadlines, least, ARGV[i]) end
    redis.call('sadd', ours, ARGV[i])
  end
end
if now - (tonumber(redis.call('hget', signs, 'noted') or '') or 0) >= GRACE / 2 then note() end
local free = redis.call('exists', lock) == 0
local first, again = head(ARGV[8], free)
reply[1] = again
local holder = redis.call('hkeys', lock)[1]
if holder and foreign(holder) or redis.call('llen', queue) > redis.call('scard', ours) then reply[2] = 1 end
if free and first and first == ARGV[8] then reply[#reply + 1] = first end
return reply
