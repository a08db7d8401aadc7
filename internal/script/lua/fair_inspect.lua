-- Reads the queue of a fair lock, without changing it.
--
-- KEYS[1]  the queue
-- KEYS[2]  the deadlines
-- ARGV[1]  how many waiters to read at most
--
-- {now, waiter, deadline, ...}  times in ms since the epoch; a deadline is '' if there
--                               is none; waiters are cut to 200 bytes
local clock = redis.call('time')
local reply = {clock[1] * 1000 + math.floor(clock[2] / 1000)}
for _, waiter in ipairs(redis.call('lrange', KEYS[1], 0, tonumber(ARGV[1]) - 1)) do
  reply[#reply + 1] = string.sub(waiter, 1, 200)
  reply[#reply + 1] = redis.call('zscore', KEYS[2], waiter) or ''
end
return reply
