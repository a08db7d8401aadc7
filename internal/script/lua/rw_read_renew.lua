-- Renews leases of readers in a batch. All keys are in one slot.
--
-- KEYS[i]        a lock, as in rw.lua
-- ARGV[5*i - 4]  its reader
-- ARGV[5*i - 3]  the prefix of the names of the holds' keys
-- ARGV[5*i - 2]  the lease in ms; a longer one that is already set stays
-- ARGV[5*i - 1]  the longest lease that was requested, in ms; 0 if not known
-- ARGV[5*i]      the reader's own idea of its hold count
--
-- {s1, s2, ..., now}  for each key
--   1   renewed
--   0   the reader has no lease any more
--   -1  a holder that excludes readers has it
-- now  in ms since the epoch; 0 without the right to read the time
--
-- The lock's TTL is extended to the reader's longest hold, even if that is longer than the
-- requested lease: a renewal by Redisson may have cut it.
--
-- Holds that last longer than any requested lease were left behind by a clock that was set
-- back: they are cut to the longest lease, and the lock with them, if it has no other holder.
-- If the count differs, they stay: a re-entry may have requested more.
--
-- A key of another type must not fail the whole batch, hence the pcall. Any other failure
-- does not depend on the key: it does not tell which owner holds the lock.
local HOLDS = 100 -- as in rw.lua
local SLACK = 1000 -- ms
local states = {}
for i = 1, #KEYS do
  local lock, owner, base, lease, most = KEYS[i], ARGV[5 * i - 4], ARGV[5 * i - 3], tonumber(ARGV[5 * i - 2]), tonumber(ARGV[5 * i - 1])
  local mine = redis.pcall('hexists', lock, owner)
  if type(mine) == 'table' then
    if not string.find(mine.err, 'WRONGTYPE') then return mine end
    states[i] = -1
  elseif mine == 0 then
    states[i] = (redis.call('exists', lock) == 0 or redis.call('hget', lock, 'mode') == 'read') and 0 or -1
  else
    local function long(left) return most > 0 and left > most + SLACK and redis.pcall('hget', lock, owner) == ARGV[5 * i] end
    local longest, n = lease, 1
    local left = redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:1')
    states[i] = left == -2 and 0 or 1
    while left ~= -2 and n <= HOLDS do
      if left < lease then
        redis.call('pexpire', base .. ':' .. owner .. ':rwlock_timeout:' .. n, lease)
      elseif long(left) then
        redis.call('pexpire', base .. ':' .. owner .. ':rwlock_timeout:' .. n, most)
        left = most
      end
      longest, n = math.max(longest, left), n + 1
      left = redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:' .. n)
    end
    if states[i] == 1 then
      left = redis.call('pttl', lock)
      if left < longest or long(left) and redis.pcall('hlen', lock) == 2 then redis.call('pexpire', lock, longest) end
    end
  end
end
local clock = redis.pcall('time')
states[#KEYS + 1] = clock[1] and clock[1] * 1000 + math.floor(clock[2] / 1000) or 0
return states
