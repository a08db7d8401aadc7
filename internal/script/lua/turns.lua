-- The part of the scripts of plain locks by which mortise's clients take turns.
--
-- The turns: zset {entry -> when it came, in µs}, mortise's own, beside the
-- lock. An entry is the id that a client waits with, after a '?' if it is to be
-- told that the lock is free, and not to be given it. Each client has a channel
-- of its own, on which it hears
--   '<id> <n>'  the lock is id's now; it was given so often in a row
--   '?'         the lock is free
--   '~'         the lock is free, but somebody else has the first chance
-- A client that does not listen to its channel is passed over.
local GIVEN = 3000 -- for how many ms a lock is given; who gets it makes it last
local KEPT = 10000 -- how long the turns outlast the last who looked at them
local ROW = 4      -- how often in a row a lock is given while others wait, too

-- Puts a client into the turns, and returns how many are before it.
local function stand(turns, entry)
  local clock = redis.call('time')
  redis.call('zadd', turns, 'nx', string.format('%.0f', clock[1] * 1000000 + clock[2]), entry)
  redis.call('pexpire', turns, KEPT)
  return redis.call('zrank', turns, entry)
end

-- Gives the lock, which is free, to an id. Returns whether that is possible.
local function give(lock, id)
  if redis.pcall('hset', lock, id, 1) ~= 1 then return false end
  if redis.pcall('pexpire', lock, GIVEN) == 1 then return true end
  redis.call('del', lock)
  return false
end

-- Lets the next one have the lock, which is free. Returns whether it has it;
-- otherwise the lock is still free. Nothing here may fail the script.
--   channel  what the channels of clients begin with; a client follows
--   command  how to publish there: publish or spublish
local function hand(lock, turns, channel, command, row)
  while true do
    local first = redis.pcall('zpopmin', turns)
    if first.err or not first[1] then return false end
    local told, id = string.match(first[1], '^(%??)(.*)$')
    local to = channel .. string.match(id, '^[^:]*')
    if told == '?' then
      local heard = redis.pcall(command, to, '?')
      if heard ~= 0 then return false end
    else
      if not give(lock, id) then return false end
      local heard = redis.pcall(command, to, id .. ' ' .. row + 1)
      if type(heard) == 'number' and heard > 0 then return true end
      redis.call('del', lock)
      if heard ~= 0 then return false end
    end
  end
end

-- Whether somebody listens for the release of the lock who takes no turns. If
-- that cannot be known, somebody may.
local function others(channel, command)
  local probe = command == 'spublish' and 'shardnumsub' or 'numsub'
  local n = redis.pcall('pubsub', probe, channel)
  return n.err ~= nil or n[2] > 0
end

-- Lets somebody have the lock, which is free: the next one, but not too often
-- in a row while others wait, too. Returns whether it is to be announced to those.
local function pass(lock, turns, channel, mine, command, row)
  if command == '' then return true end
  if row > 0 and row % ROW == 0 and others(channel, command) then
    local first = redis.pcall('zrange', turns, 0, 0)
    if not first.err and first[1] then
      redis.pcall(command, mine .. string.match(first[1], '^%??([^:]*)'), '~')
    end
    return true
  end
  return not hand(lock, turns, mine, command, row)
end
