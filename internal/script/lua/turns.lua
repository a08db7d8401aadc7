-- The part of the scripts of plain locks by which mortise's clients take turns.
--
-- The turns: zset {entry -> when it came, in µs}, mortise's own, beside the
-- lock. An entry is the id that a client waits with, after a '?' if it is to be
-- told that the lock is free, and not to be given it. Each client has a channel
-- of its own, on which it hears
--   '<id> <n>'  the lock is id's now; it was given so often in a row
--   '?'         the lock is free
--   '~'         the lock is free, but Redisson's threads have the first chance
-- A client that does not listen to its channel is passed over.
local KEPT = 10000 -- how long the turns outlast the last who looked at them

-- Puts a client into the turns. Returns how many are before it, and 1 if it was
-- not there: then it may have been given the lock since it asked before, and the
-- news of that be still on its way.
local function stand(turns, entry)
  local clock = redis.call('time')
  local new = redis.call('zadd', turns, 'nx', string.format('%.0f', clock[1] * 1000000 + clock[2]), entry)
  redis.call('pexpire', turns, KEPT)
  return redis.call('zrank', turns, entry), new
end
