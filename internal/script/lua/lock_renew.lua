-- Renews leases in a batch. All keys lie in one slot.
--
-- KEYS[i]        a lock: hash {owner -> count}
-- ARGV[2*i - 1]  its owner
-- ARGV[2*i]      its lease in ms; a longer one that is already set stays
--
-- {s1, s2, ...}  for each key
--   1   renewed
--   0   the key is gone
--   -1  somebody else has it
--
-- A key of another type must not fail the whole batch, hence the pcall. Any
-- other failure is none of the key's: it says nothing about who has the lock.
local states = {}
for i = 1, #KEYS do
  local mine = redis.pcall('hexists', KEYS[i], ARGV[2 * i - 1])
  if mine == 1 then
    local lease = tonumber(ARGV[2 * i])
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    states[i] = 1
  elseif type(mine) == 'table' and not string.find(mine.err, 'WRONGTYPE') then
    return mine
  else
    states[i] = -redis.call('exists', KEYS[i])
  end
end
return states
