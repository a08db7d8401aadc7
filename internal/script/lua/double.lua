-- The second part of the scripts of the double barrier.
--
-- KEYS[1], further fields: 'open' -> 1, once all have entered; 'broken' -> why, if
-- one of them did not leave by itself since. A party's entry is the end of its lease, or 'left'.

-- How many parties are inside.
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

-- Notes that parties are not inside any more. Of a round that is not open nobody
-- has been let in, so they give their places to others.
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
  if inside() > 0 then return end
  if over then finish() else redis.call('del', barrier) end
end

-- Takes out the dead.
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
