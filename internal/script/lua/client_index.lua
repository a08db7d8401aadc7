-- Notes in the index of clients that a client has a record, or that it has none any more.
--
-- KEYS[1]  the index: zset {client -> until when its record lasts, in ms of the server's clock}
-- ARGV[1]  the client
-- ARGV[2]  how long its record lasts, in ms; 0 if it has none any more
--
-- {now}  the server's time in ms
--
-- Each call removes some of the entries that are over, more than it adds, and of those that
-- last longer than any of ours: they are forged, or the clock was set back. The key is
-- mortise's own: what is no index is removed, in the background, because it may be large.
local SOME, LONG = 100, 600000
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function ms(at) return string.format('%.0f', at) end

local kind = redis.call('type', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'zset' then redis.call('unlink', KEYS[1]) end
for _, range in ipairs({{'-inf', ms(now)}, {'(' .. ms(now + LONG), '+inf'}}) do
  for _, client in ipairs(redis.call('zrangebyscore', KEYS[1], range[1], range[2], 'limit', 0, SOME)) do
    redis.call('zrem', KEYS[1], client)
  end
end
if ARGV[2] == '0' then
  redis.call('zrem', KEYS[1], ARGV[1])
else
  redis.call('zadd', KEYS[1], ms(now + ARGV[2]), ARGV[1])
  local limited = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if limited ~= 1 then
    redis.call('zrem', KEYS[1], ARGV[1]) -- otherwise it might stay forever
    return limited
  end
end
return {ms(now)}
