-- The first part of the scripts of an election.
--
-- KEYS[1]  the term: hash {'mode' -> 'election', 'term' -> its number,
--          'value' -> text, 'edition' -> how often the value was changed,
--          owner -> 1}. It never exists without a TTL, which is the lease.
-- ARGV[1]  owner; '' where there is none
local key, owner = KEYS[1], ARGV[1]

-- Whether somebody leads: true, false, or nil if the key is no election.
local function led()
  if redis.call('hget', key, 'mode') == 'election' then
    if redis.call('hlen', key) == 5 then return true end
  elseif redis.call('exists', key) == 0 then
    return false
  end
end

-- Who leads.
local function leader()
  for _, field in ipairs(redis.call('hkeys', key)) do
    if field ~= 'mode' and field ~= 'term' and field ~= 'value' and field ~= 'edition' then return field end
  end
end

-- Announces on some channels, by the commands that ARGV has from the n-th on.
-- Returns what Redis objected. It is the last thing that a script does, and
-- protected: were it to fail the script, the change would be hidden.
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
