-- Renews leases of readers in a batch. All keys lie in one slot.
--
-- KEYS[i]        a lock, as in rw.lua
-- ARGV[3*i - 2]  its reader
-- ARGV[3*i - 1]  what the names of the holds' keys begin with
-- ARGV[3*i]      the lease in ms; a longer one that is already set stays
--
-- {s1, s2, ...}  for each key
--   1   renewed
--   0   the reader has no lease any more
--   -1  somebody has it who keeps readers out
--
-- The lock is made to last as long as the longest hold of the reader, even if
-- that is longer than the lease asked for: a renewal by Redisson may have cut
-- it.
--
-- A key of another type must not fail the whole batch, hence the pcall. Any
-- other failure is none of the key's: it says nothing about who has the lock.
local HOLDS = 100 -- as in rw.lua
local states = {}
for i = 1, #KEYS do
  local lock, owner, base, lease = KEYS[i], ARGV[3 * i - 2], ARGV[3 * i - 1], tonumber(ARGV[3 * i])
  local mine = redis.pcall('hexists', lock, owner)
  if type(mine) == 'table' then
    if not string.find(mine.err, 'WRONGTYPE') then return mine end
    states[i] = -1
  elseif mine == 0 then
    states[i] = (redis.call('exists', lock) == 0 or redis.call('hget', lock, 'mode') == 'read') and 0 or -1
  else
    local longest, n = lease, 1
    local left = redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:1')
    states[i] = left == -2 and 0 or 1
    while left ~= -2 and n <= HOLDS do
      if left < lease then redis.call('pexpire', base .. ':' .. owner .. ':rwlock_timeout:' .. n, ARGV[3 * i]) end
      longest, n = math.max(longest, left), n + 1
      left = redis.call('pttl', base .. ':' .. owner .. ':rwlock_timeout:' .. n)
    end
    if states[i] == 1 and redis.call('pttl', lock) < longest then redis.call('pexpire', lock, longest) end
  end
end
return states
