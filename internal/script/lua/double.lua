-- The second part of the scripts of the double barrier.
--
-- KEYS[1] has further fields: 'open' -> 1 once all have entered; 'broken' -> why, if a
-- party has since gone without leaving; 'out' -> how many are not inside any more since
-- then. A party's entry is the end of its lease, or 'left'.
--
-- The outcome of a party is 'inside' from the moment on at which all are, until it has
-- another. So a repeat of its entry is recognized even if the whole key has ended since:
-- the others were let in with it, so it must not enter the next round.

-- The party's outcome, or false if the barrier is not over for it.
local function outcome()
  local told = redis.call('getrange', KEYS[2], 0, 299)
  return told ~= '' and told ~= 'inside' and told
end

-- The number of parties inside.
local function inside()
  local there, n = everybody(), 0
  for i = 2, #there, 2 do
    if there[i] ~= 'left' then n = n + 1 end
  end
  return n
end

-- Ends the round: all have left.
local function finish()
  local there, what = everybody(), redis.call('hget', barrier, 'broken') or 'over'
  redis.call('del', barrier)
  for i = 1, #there, 2 do tell(there[i], what) end
  announce()
end

-- Marks parties as no longer inside. As long as the round is not open, no party has been
-- let in, so their places become free for others.
local function out(parties, why, open)
  local over = open or not why
  for _, who in ipairs(parties) do
    if over then
      if why then redis.call('hsetnx', barrier, 'broken', 'broken ' .. why .. ' ' .. string.sub(who, 1, 200)) end
      redis.call('hset', barrier, who, 'left')
    else
      redis.call('hdel', barrier, who)
    end
  end
  if over then
    local before = tonumber(redis.call('hget', barrier, 'out') or '') or 0
    redis.call('hset', barrier, 'out', before + #parties)
  end
  if inside() > 0 then return end
  if over then finish() else redis.call('del', barrier) end
end

-- Removes the parties whose leases have ended.
local function bury()
  if not due() then return end
  local open, there, first = redis.call('hexists', barrier, 'open') == 1, everybody(), nil
  local dead = {}
  for i = 1, #there, 2 do
    local till = tonumber(there[i + 1])
    if till and till <= now then
      dead[#dead + 1] = there[i]
    elseif till then
      first = math.min(first or till, till)
    end
  end
  if first then redis.call('hset', barrier, 'next', first) end
  if #dead > 0 then out(dead, 'died', open) end
end
