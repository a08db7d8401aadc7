-- The part of the scripts of semaphores by which those who wait for permits are
-- not passed over by those who come later.
--
-- The claims: hash {waiter -> 'order permits until'}, mortise's own. It says who
-- waits for how many permits, in the order in which they came, and until which ms
-- of the server's clock that counts: a waiter that lives claims again about once
-- a second. Whoever takes permits leaves as many as were claimed before it came.
-- Redisson does not know of it.
local CLAIM = 3000 -- for how long a claim counts
local CLAIMS = 1000 -- how many there are at most; what has more of them is not ours, and counts for nothing

local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- What a waiter finds ('' is one that does not wait): how many permits it has to
-- leave, its order, how many others claim, and whose claims have ended.
local crowded -- there are as many claims as can be
local function claimed(claims, waiter)
  local all, others, ended, own, last = {}, {}, {}, nil, 0
  local many = redis.call('hlen', claims)
  if many > 0 and many <= CLAIMS then all = redis.call('hgetall', claims) end
  for i = 1, #all, 2 do
    local order, permits, till = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
    order, permits, till = tonumber(order), tonumber(permits), tonumber(till)
    if not till or till <= now or till > now + CLAIM then -- the last if the clock was set back
      ended[#ended + 1] = all[i]
    else
      last = math.max(last, order)
      if all[i] == waiter then own = order else others[#others + 1] = {order, permits} end
    end
  end
  crowded = many > CLAIMS or #others >= CLAIMS
  local left = 0
  for _, claim in ipairs(others) do
    if not own or claim[1] < own then left = left + claim[2] end
  end
  return left, own or last + 1, #others, ended
end

-- Claims permits for a waiter, if there is room. Returns what Redis objected.
local function claim(claims, waiter, order, permits, ended)
  if crowded then return end
  for _, other in ipairs(ended) do redis.call('hdel', claims, other) end
  redis.call('hset', claims, waiter, string.format('%d %d %.0f', order, permits, now + CLAIM))
  local limited = redis.pcall('pexpire', claims, CLAIM)
  if limited ~= 1 then
    redis.call('del', claims) -- else it would stay for ever
    return limited
  end
end
