-- The part of the scripts that release plain locks, after redissons.lua and
-- turns.lua.
local GIVEN = 3000 -- for how many ms a lock is given; who gets it makes it last
local MANY = 100   -- how many clients that do not listen are passed over at most
local ROW = 4      -- how often in a row a lock is given where it cannot be known who waits

-- Lets the next one have the lock, which is free, unless threads of Redisson's
-- listen: it is left to them. Returns whether it is to be announced to those who
-- take no turns, what became of it, and whether such threads listen: 'given' to the
-- next one, 'left' to them, or nothing. Nothing here may fail the script. It is one
-- function because each is made anew in every run, and most runs find no turns.
--   channel  where releases are announced
--   mine     what the channels of clients begin with; a client follows
--   command  how to publish there: publish or spublish; nothing if nobody takes
--            turns
--   row      how often in a row the lock was given
--   keep     'keep' if it is not to be left to Redisson's threads, who did not take
--            it the last times; they hear then for how long it was given
--   way      the first one in which releases are announced
local function pass(lock, turns, channel, mine, command, row, keep, way)
  if command == '' then return true end
  local asked, theirs = false, nil
  for _ = 1, MANY do
    local first = redis.pcall('zpopmin', turns)
    if first.err or not first[1] then return true, nil, theirs end
    local told, id = string.match(first[1], '^(%??)(.*)$')
    local to, heard = mine .. string.match(id, '^[^:]*'), nil
    if not asked then
      asked, theirs = true, redissons(channel, command, way)
      if keep ~= 'keep' and (theirs or theirs == nil and row > 0 and row % ROW == 0) then
        redis.pcall('zadd', turns, first[2], first[1])
        redis.pcall('pexpire', turns, KEPT)
        redis.pcall(command, to, '~')
        return true, 'left', theirs
      end
    end
    if told == '?' then
      heard = redis.pcall(command, to, '?')
    else
      if redis.pcall('hset', lock, id, 1) ~= 1 then return true, nil, theirs end
      if redis.pcall('pexpire', lock, GIVEN) == 1 then
        heard = redis.pcall(command, to, id .. ' ' .. row + 1)
        if type(heard) == 'number' and heard > 0 then return theirs ~= false, 'given', theirs end
      end
      redis.call('hdel', lock, id) -- who releases may do that
    end
    if heard ~= 0 then return true, nil, theirs end
  end
  return true, nil, theirs
end
