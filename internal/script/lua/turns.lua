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

-- Puts a client into the turns. Returns how many are before it, and 1 if it was
-- not there: then it may have been given the lock since it asked before, and the
-- news of that be still on its way.
local function stand(turns, entry)
  local clock = redis.call('time')
  local new = redis.call('zadd', turns, 'nx', string.format('%.0f', clock[1] * 1000000 + clock[2]), entry)
  redis.call('pexpire', turns, KEPT)
  return redis.call('zrank', turns, entry), new
end

-- Lets the next one have the lock, which is free, but not too often in a row
-- while others wait, too. Returns whether it is still free, and to be announced
-- to those who take no turns, and whether it was left to them. Nothing here may
-- fail the script. It is one function because each is made anew in every run, and
-- most runs find no turns.
--   channel  where releases are announced
--   mine     what the channels of clients begin with; a client follows
--   command  how to publish there: publish or spublish; nothing if nobody takes
--            turns
--   way      the first one in which releases are announced
local function pass(lock, turns, channel, mine, command, row, way)
  if command == '' then return true end
  if row > 0 and row % ROW == 0 then
    -- If it cannot be known whether somebody listens to the channel, somebody may:
    -- on a cluster the classic listeners may be those of other servers.
    local listen = redis.pcall('pubsub', command == 'spublish' and 'shardnumsub' or 'numsub', channel)
    if listen.err or listen[2] > 0 or command == 'spublish' and way == 'publish' then
      local first = redis.pcall('zrange', turns, 0, 0)
      if not first.err and first[1] then
        redis.pcall(command, mine .. string.match(first[1], '^%??([^:]*)'), '~')
      end
      return true, true
    end
  end
  while true do
    local first = redis.pcall('zpopmin', turns)
    if first.err or not first[1] then return true end
    local told, id = string.match(first[1], '^(%??)(.*)$')
    local to, heard = mine .. string.match(id, '^[^:]*'), nil
    if told == '?' then
      heard = redis.pcall(command, to, '?')
    else
      if redis.pcall('hset', lock, id, 1) ~= 1 then return true end
      if redis.pcall('pexpire', lock, GIVEN) == 1 then
        heard = redis.pcall(command, to, id .. ' ' .. row + 1)
        if type(heard) == 'number' and heard > 0 then return false end
      end
      redis.call('hdel', lock, id) -- who releases may do that
    end
    if heard ~= 0 then return true end
  end
end
