-- Adds acquisitions that have ended to the history of a lock.
--
-- KEYS[1]  the history: stream of {e -> text}
-- ARGV[1]  how many entries to keep
-- ARGV[2]  how long the history lasts after its last entry, in ms
-- ARGV...  the entries, the oldest first
--
-- {1}  they were added
--
-- The key is mortise's own: what is no history is removed, in the background, because it may
-- be large. So is one that ends in the future, because each entry comes after the last one:
-- it is forged, or the clock was set back.
local ENTRIES, AHEAD = 10000, 3600000
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function ours()
  if redis.call('type', KEYS[1]).ok ~= 'stream' or redis.call('xlen', KEYS[1]) > ENTRIES then return false end
  local last = redis.call('xrevrange', KEYS[1], '+', '-', 'count', 1)[1]
  local at = last and tonumber(string.match(last[1], '^%d+'))
  return at and at < now + AHEAD
end

if redis.call('exists', KEYS[1]) == 1 and not ours() then redis.call('unlink', KEYS[1]) end
for i = 3, #ARGV do
  redis.call('xadd', KEYS[1], 'maxlen', ARGV[1], '*', 'e', ARGV[i])
  local limited = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if limited ~= 1 then
    redis.call('del', KEYS[1]) -- otherwise it would stay forever
    return limited
  end
end
return {1}
