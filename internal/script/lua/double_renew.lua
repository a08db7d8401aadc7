-- Renews the leases of parties of double barriers in a batch. All keys lie in
-- one slot.
--
-- KEYS[i]        a double barrier, as in barrier.lua and double.lua
-- ARGV[2*i - 1]  its party
-- ARGV[2*i]      the lease in ms; a longer one that is already set stays
--
-- {s1, s2, ...}  for each key
--   1   renewed
--   0   the party is not inside any more, or its lease is over
--   -1  the key is something else
--
-- A key of another type must not fail the whole batch, hence the pcall. Any
-- other failure is none of the key's.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local states = {}
for i = 1, #KEYS do
  local entry, lease = redis.pcall('hget', KEYS[i], ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  if type(entry) == 'table' then
    if not string.find(entry.err, 'WRONGTYPE') then return entry end
    states[i] = -1
  elseif (tonumber(entry or '') or 0) > now then
    if tonumber(entry) < now + lease then
      redis.call('hdel', KEYS[i], '') -- takes nothing away; after it, HSET is not refused for lack of memory
      redis.call('hset', KEYS[i], ARGV[2 * i - 1], now + lease)
    end
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    states[i] = 1
  else
    states[i] = 0
  end
end
return states
