-- The part of the scripts that release plain locks, after redissons.lua and
-- turns.lua.
local GIVEN = 3000 -- the lease of a granted lock, in ms; the new holder extends it
local BRIEF = 1000 -- the same if the new holder asks first, for a lease of its own
local MANY = 100   -- limit of the turns passed over because their clients do not listen, and of those that count
local ROW = 4      -- grants in a row, where it cannot be known whether Redisson's threads listen

-- Grants the free lock to the next turn, unless threads of Redisson's listen and it is their turn: then it is left
-- to them. So that each client has its part, that is after as many grants in a row as there are clients of mortise's for one
-- of Redisson's. Returns four values: whether the release must be announced to waiters without
-- turns; 'given' if the lock was granted, 'left' if it is left to Redisson's threads, or
-- nothing; whether such threads listen; and the message, if the lock is left to them. Nothing here may fail the script. It is one
-- function because every run creates its functions anew, and most runs find no turns.
--   channel  where releases are announced
--   mine     the prefix of the channels of clients; a client follows
--   command  how to publish there: publish or spublish; nothing if no client takes turns
--   row      how many grants in a row came before
--   keep     'keep' if the lock is not to be left to Redisson's threads because they did not
--            take it the last times; an announcement then tells them for how long it is
--            granted
--   known    what the next client is to know of that, see turns.lua
--   way      the first command by which releases are announced
local function pass(lock, turns, channel, mine, command, row, keep, known, way)
  if command == '' then return true end
  for _ = 1, MANY do
    local first = redis.pcall('zpopmin', turns)
    if first[1] == MARK then first = redis.pcall('zpopmin', turns) end -- others are behind it only if somebody has set its score
    if first.err or not first[1] then return true end
    local asks, id = string.match(first[1], '^(%??)(.*)$')
    local to = mine .. string.match(id, '^[^:]*')
    -- The turn of a client that does not listen is over, also if it is that of Redisson's threads: else it would be the first for
    -- ever. Listeners are counted before the message is sent, and what that grants is not taken back: it also reaches clients that
    -- listen to a replica, as after a failover, and PUBLISH does not count them.
    local listeners = redis.pcall('pubsub', command == 'spublish' and 'shardnumsub' or 'numsub', to)
    if listeners.err or listeners[2] > 0 then
      local theirs, r, g = redissons(channel, command, way)
      if theirs then
        redis.pcall('zrem', turns, MARK)
        -- of those that take turns, only the first listen there
        local more = redis.pcall('zcard', turns)
        if type(more) == 'number' then g = math.max(g, math.min(more + 1, MANY)) end
      end
      if keep ~= 'keep' and (theirs and (row + 1) * r >= g or theirs == nil and row > 0 and row % ROW == 0) then
        local word, times
        if theirs then word, times = left(r, g, FREE) end
        redis.pcall('zadd', turns, first[2], first[1])
        redis.pcall(command, to, '~' .. (times and times > 1 and times or '') .. known)
        return true, 'left', theirs, word
      end
      local brief = asks == '?' -- with the count 0, until the new holder has asked
      if redis.pcall('hset', lock, id, brief and 0 or 1) ~= 1 then return true, nil, theirs end
      if redis.pcall('pexpire', lock, brief and BRIEF or GIVEN) == 1
          and type(redis.pcall(command, to, id .. ' ' .. row + 1 .. (theirs and (known == '' and ' 0 0' or known) or ''))) == 'number' then
        return theirs ~= false, 'given', theirs
      end
      redis.call('hdel', lock, id) -- HDEL is allowed: the release has used it
      return true, nil, theirs
    end
  end
  return true
end

-- Passes a lock on that was released, and announces that. Returns 1, 2 if it is left to Redisson's threads, or 3 if it was granted
-- to the next turn; then why Redis refused to publish, if it did. The arguments of the script say how: from ARGV[at] on
--   how to publish to clients that take turns; nothing if none does
--   the channel, and the prefix of those of clients that take turns
--   how many grants in a row came before
--   'shared' if threads of Redisson's are known to take part, 'keep' if the lock is not to be left to them even so; then what the
--   next client is to know of that
-- and from ARGV[ways] on how to publish otherwise: publish, spublish, or both. It is protected as pass is.
local function freed(lock, turns, at, ways)
  local command, channel, with, known = ARGV[at], ARGV[at + 1], string.match(ARGV[at + 4], '^(%a*)(.*)$')
  local announced, became, listen, word = pass(lock, turns, channel, ARGV[at + 2], command, tonumber(ARGV[at + 3]), with, known, ARGV[ways])
  if with == 'shared' and announced and not became then
    local r, g
    if listen == nil then listen, r, g = redissons(channel, command, ARGV[ways]) end
    if listen then became, word = 'left', r and left(r, g, FREE) end
  end
  local state, message = 1, FREE
  if became == 'given' then
    state, message = 3, ELSEWHERE
  elseif became == 'left' then
    state, message = 2, word or LEFT
    if command ~= '' then
      local clock = redis.pcall('time')
      if not clock.err then redis.pcall('zadd', turns, string.format('%.0f', FAR + clock[1] * 1000000 + clock[2] + CHANCE), MARK) end
      redis.pcall('pexpire', turns, KEPT)
    end
  elseif with ~= '' then
    message = OURS
  end
  local heard, reason
  for i = ways, announced and #ARGV or 0 do
    local sent = redis.pcall(ARGV[i], channel, message)
    if type(sent) == 'number' then heard = heard or sent > 0 else reason = sent.err end
  end
  if heard and message == FREE and state == 1 then
    if listen == nil then listen = redissons(channel, command, ARGV[ways]) end
    if listen then state = 2 end
  end
  return state, reason
end
