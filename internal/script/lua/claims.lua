-- The part of the scripts of semaphores that keeps later arrivals from passing over the
-- waiters.
--
-- The claims: hash {waiter -> 'order permits until'}, mortise's own. It lists the waiters:
-- the order in which they came, how many permits each wants, and the ms of the server's
-- clock at which the claim ends. A live waiter renews its claim about once a second. An
-- acquirer leaves as many permits as were claimed before it came. Redisson ignores claims.
local CLAIM = 3000 -- ms that a claim lasts
local CLAIMS = 1000 -- limit; a hash with more of them is not ours and is ignored

local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- What a waiter finds ('' is an acquirer that does not wait): how many permits it has to
-- leave, its order, how many others have claims, and the waiters whose claims have ended.
local crowded -- the limit is reached
local function claimed(claims, waiter)
  local all, others, ended, own, last = {}, {}, {}, nil, 0
  local many = redis.call('hlen', claims)
  if many > 0 and many <= CLAIMS then all = redis.call('hgetall', claims) end
  for i = 1, #all, 2 do
    local order, permits, till = string.match(all[i + 1], '^(%d+) (%d+) (%d+)$')
    order, permits, till = tonumber(order), tonumber(permits), tonumber(till)
    if not till or till <= now or till > now + CLAIM then -- the last test: the clock was set back
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

-- Claims permits for a waiter, if the limit allows. Returns Redis' error, if there is one.
local function claim(claims, waiter, order, permits, ended)
  if crowded then return end
  for _, other in ipairs(ended) do redis.call('hdel', claims, other) end
  redis.call('hset', claims, waiter, string.format('%d %d %.0f', order, permits, now + CLAIM))
  local limited = redis.pcall('pexpire', claims, CLAIM)
  if limited ~= 1 then
    redis.call('del', claims) -- otherwise it would stay forever
    return limited
  end
end
