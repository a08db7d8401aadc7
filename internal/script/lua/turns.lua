-- The part of the scripts of plain locks by which mortise's clients take turns.
--
-- The turns: zset {entry -> when it came, in µs}, a key of mortise's own. An entry is
-- the id of a waiting client's request, after a '?' if the client asks before it relies on a
-- grant: then it is granted for a moment, with the count 0. Each client has a channel of its own, with the messages
--   '<id> <n>'  the lock is granted to id; n grants in a row so far
--   '~' '~<n>'  the lock is free, but Redisson's threads have the first chance, n times in a row
-- Where such threads listen, ' <v> <ms>' may follow: v times in a row they have not used their chance, and they have none for so long.
-- A client that does not listen to its channel is passed over. After the lock was left to Redisson's threads, the turns
-- also have the entry MARK, whose score is FAR and until when: clients that have not heard of that are refused.
local KEPT = 10000 -- how long the turns outlast their last use, in ms
local MARK, FAR = '~', 4e15
local CHANCE = 20000 -- how long they have it, in µs

-- For how many ms Redisson's threads still have the first chance to acquire the free lock; nil if they have none, or
-- the user has no right to learn that.
local function leftFor(turns)
  local till = redis.pcall('zscore', turns, MARK)
  if type(till) ~= 'string' then return nil end
  local clock = redis.pcall('time')
  if clock.err then return nil end
  local left = tonumber(till) - FAR - (clock[1] * 1000000 + clock[2])
  if left > 0 and left <= CHANCE then return math.ceil(left / 1000) end -- else it is over, or the clock was set back
  redis.pcall('zrem', turns, MARK)
end

-- Enters a client into the turns. Returns how many entries are before it, and 1 if the entry
-- is new: then the client may have been granted the lock since it last asked, and the message
-- may still be in flight. It comes after all others, also if the clock was set back.
local function stand(turns, entry)
  local clock = redis.call('time')
  local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
  local new = redis.call('zadd', turns, 'nx', at, entry)
  redis.call('pexpire', turns, KEPT)
  if new == 1 then
    local last = redis.pcall('zrevrangebyscore', turns, '(' .. FAR, '(' .. at, 'withscores', 'limit', 0, 1)
    if last[2] then redis.call('zadd', turns, string.format('%.0f', last[2] + 1), entry) end
  end
  return redis.call('zrank', turns, entry), new
end
