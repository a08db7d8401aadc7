-- The part of the scripts of semaphores that keeps later arrivals from passing over the
-- waiters.
--
-- The claims: hash {waiter -> 'order permits until client'}, mortise's own. It lists the waiters:
-- the order in which they came, how many permits each wants, the ms of the server's
-- clock at which the claim ends, and the client, if that listens to a channel of its own. A live waiter renews its
-- claim about once a second. An acquirer leaves as many permits as were claimed before it came. Redisson ignores claims.
local CLAIM = 3000 -- ms that a claim lasts
local CLAIMS = 1000 -- limit; a hash with more of them is not ours and is ignored

local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- The parts of a claim, {order, permits, client}; nil if it has ended.
local function parse(text)
  local order, permits, till, client = string.match(text, '^(%d+) (%d+) (%d+) ?(.*)$')
  till = tonumber(till)
  if not till or till <= now or till > now + CLAIM then return nil end -- the last test: the clock was set back
  return {tonumber(order), tonumber(permits), client}
end

-- What a waiter finds ('' is an acquirer that does not wait): how many permits it has to
-- leave, its order, the claims of others as {order, permits, client}, and the waiters whose claims have ended. call is
-- redis.call, or redis.pcall to find nothing where Redis refuses to read them. A waiter that is refused in any case, and has
-- a claim, finds only its order: hundreds of them renew their claims, and none has to read those of all.
local crowded -- the limit is reached
local function claimed(claims, waiter, call, refused)
  local all, others, ended, own, last = {}, {}, {}, nil, 0
  local many = call('hlen', claims)
  if type(many) ~= 'number' then many = 0 end
  if many > 0 and many <= CLAIMS then
    local text = refused and waiter ~= '' and redis.pcall('hget', claims, waiter)
    local mine = type(text) == 'string' and parse(text)
    if mine then return 0, mine[1], others, ended end
    all = call('hgetall', claims)
  end
  for i = 1, #all, 2 do
    local claim = parse(all[i + 1])
    if not claim then
      ended[#ended + 1] = all[i]
    else
      last = math.max(last, claim[1])
      if all[i] == waiter then own = claim[1] else others[#others + 1] = claim end
    end
  end
  crowded = many > CLAIMS or #others >= CLAIMS
  local left = 0
  for _, claim in ipairs(others) do
    if not own or claim[1] < own then left = left + claim[2] end
  end
  return left, own or last + 1, others, ended
end

-- What others may take of that many permits without a claim.
local function spare(permits, others)
  for _, claim in ipairs(others) do permits = permits - claim[2] end
  return math.max(permits, 0)
end

-- Claims permits for a waiter of a client ('' if that does not listen), if the limit allows. Returns Redis' error, if
-- there is one.
local function claim(claims, waiter, order, permits, client, ended)
  if crowded then return end
  for _, other in ipairs(ended) do redis.call('hdel', claims, other) end
  local text = string.format('%d %d %.0f', order, permits, now + CLAIM)
  redis.call('hset', claims, waiter, client == '' and text or text .. ' ' .. client)
  local limited = redis.pcall('pexpire', claims, CLAIM)
  if limited ~= 1 then
    redis.call('del', claims) -- otherwise it would stay forever
    return limited
  end
end
