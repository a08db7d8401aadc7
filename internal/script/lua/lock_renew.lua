-- Renews leases in a batch. All keys are in one slot.
--
-- KEYS[i]        a lock: hash {owner -> count}
-- ARGV[4*i - 3]  its owner
-- ARGV[4*i - 2]  its lease in ms; a longer one that is already set stays
-- ARGV[4*i - 1]  the longest lease that was requested, in ms; 0 if not known
-- ARGV[4*i]      the owner's own idea of its hold count
--
-- {s1, s2, ..., now}  for each key
--   1   renewed
--   0   the key is gone
--   -1  another owner holds it
-- now  in ms since the epoch; 0 without the right to read the time
--
-- A key that lasts longer than any requested lease was left behind by a clock that was set
-- back: it is cut to the longest lease. If the count differs, it stays: a re-entry may have
-- requested more. It also stays if the hash has other owners.
--
-- A key of another type must not fail the whole batch, hence the pcall. Any other failure
-- does not depend on the key: it does not tell which owner holds the lock.
local SLACK = 1000 -- ms

local function alone(key, owner, count)
  if redis.pcall('hget', key, owner) ~= count then return false end
  local size = redis.pcall('hlen', key)
  if size == 1 then return true end
  local mode = redis.pcall('hget', key, 'mode')
  return size == 2 and mode == 'write' or size == 5 and mode == 'election'
end

local states = {}
for i = 1, #KEYS do
  local owner, most = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 1])
  local mine = redis.pcall('hexists', KEYS[i], owner)
  if mine == 1 then
    local lease, left = tonumber(ARGV[4 * i - 2]), redis.call('pttl', KEYS[i])
    if left < lease then
      redis.call('pexpire', KEYS[i], lease)
    elseif most > 0 and left > most + SLACK and alone(KEYS[i], owner, ARGV[4 * i]) then
      redis.call('pexpire', KEYS[i], most)
    end
    states[i] = 1
  elseif type(mine) == 'table' and not string.find(mine.err, 'WRONGTYPE') then
    return mine
  else
    states[i] = -redis.call('exists', KEYS[i])
  end
end
local clock = redis.pcall('time')
states[#KEYS + 1] = clock[1] and clock[1] * 1000 + math.floor(clock[2] / 1000) or 0
return states
