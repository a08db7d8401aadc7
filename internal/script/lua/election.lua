-- The first part of the scripts of an election.
--
-- KEYS[1]  the term: hash {'mode' -> 'election', 'term' -> its number,
--          'value' -> text, 'edition' -> how often the value has changed,
--          owner -> 1}. It always has a TTL, which is the lease.
-- ARGV[1]  owner; '' where there is none
local key, owner = KEYS[1], ARGV[1]

-- Whether there is a leader: true, false, or nil if the key is not an election.
local function led()
  if redis.call('hget', key, 'mode') == 'election' then
    if redis.call('hlen', key) == 5 then return true end
  elseif redis.call('exists', key) == 0 then
    return false
  end
end

-- The leader.
local function leader()
  for _, field in ipairs(redis.call('hkeys', key)) do
    if field ~= 'mode' and field ~= 'term' and field ~= 'value' and field ~= 'edition' then return field end
  end
end

-- Announces on some channels, by the commands in ARGV from the n-th on. Returns Redis'
-- error, if there is one. It comes last in a script and is protected: if it failed the
-- script, the caller would not learn of the change.
local function announce(n, ...)
  local objection
  for _, channel in ipairs({...}) do
    for i = n, #ARGV do
      local sent = redis.pcall(ARGV[i], channel, '0')
      if type(sent) == 'table' and sent.err then objection = sent.err end
    end
  end
  return objection
end
