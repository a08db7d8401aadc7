-- Renews the leases of parties of double barriers in a batch. All keys are in one slot.
--
-- KEYS[i]        a double barrier, as in barrier.lua and double.lua
-- ARGV[4*i - 3]  its party
-- ARGV[4*i - 2]  the lease in ms; a longer one that is already set stays
-- ARGV[4*i - 1]  the longest lease that was requested, in ms; 0 if not known. A lease
--                that ends later was left behind by a clock that was set back: it
--                is cut to this
-- ARGV[4*i]      not used
--
-- {s1, s2, ..., now}  for each key
--   1   renewed
--   0   the party is not inside any more, or its lease has ended
--   -1  the key is something else
-- now  in ms since the epoch
--
-- A key of another type must not fail the whole batch, hence the pcall. Any other
-- failure does not depend on the key.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local SLACK = 1000 -- ms
local states = {}
for i = 1, #KEYS do
  local party, lease, most = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2]), tonumber(ARGV[4 * i - 1])
  local entry = redis.pcall('hget', KEYS[i], party)
  if type(entry) == 'table' then
    if not string.find(entry.err, 'WRONGTYPE') then return entry end
    states[i] = -1
  elseif (tonumber(entry or '') or 0) > now then
    local long = most > 0 and tonumber(entry) > now + most + SLACK
    if long or tonumber(entry) < now + lease then
      redis.call('hdel', KEYS[i], '') -- removes nothing; HSET is then not refused for lack of memory
      redis.call('hset', KEYS[i], party, now + (long and most or lease))
    end
    if redis.call('pttl', KEYS[i]) < lease then redis.call('pexpire', KEYS[i], lease) end
    states[i] = 1
  else
    states[i] = 0
  end
end
states[#KEYS + 1] = now
return states
