-- The part of the scripts of plain locks by which mortise's clients take turns.
--
-- The turns: zset {entry -> when it came, in µs}, a key of mortise's own. An entry is
-- the id of a waiting client's request, after a '?' if the client asks before it relies on a
-- grant: then it is granted for a moment, with the count 0. Each client has a channel of its own, with the messages
--   '<id> <n>'  the lock is granted to id; n grants in a row so far
--   '~'         the lock is free, but Redisson's threads have the first chance
-- A client that does not listen to its channel is passed over.
local KEPT = 10000 -- how long the turns outlast their last use, in ms

-- Enters a client into the turns. Returns how many entries are before it, and 1 if the entry
-- is new: then the client may have been granted the lock since it last asked, and the message
-- may still be in flight.
local function stand(turns, entry)
  local clock = redis.call('time')
  local new = redis.call('zadd', turns, 'nx', string.format('%.0f', clock[1] * 1000000 + clock[2]), entry)
  redis.call('pexpire', turns, KEPT)
  return redis.call('zrank', turns, entry), new
end
