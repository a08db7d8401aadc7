-- Notes in the index of clients that a client has a record, or that it has none any more.
--
-- KEYS[1]  the index: zset {client -> until when its record lasts, in ms of the server's clock}
-- ARGV[1]  the client
-- ARGV[2]  how long its record lasts, in ms; 0 if it has none any more
--
-- now  the server's time in ms
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('type', KEYS[1]).ok ~= 'zset' then redis.call('del', KEYS[1]) end
redis.call('zremrangebyscore', KEYS[1], '-inf', string.format('%.0f', now))
if ARGV[2] == '0' then
  redis.call('zrem', KEYS[1], ARGV[1])
else
  redis.call('zadd', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return string.format('%.0f', now)
