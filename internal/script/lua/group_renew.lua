-- Renews leases on fields of groups in a batch. All keys are in one slot.
--
-- KEYS[i]  a group, see group.lua; it may come several times
-- ARGV     for each key: its owner, its lease in ms, the number of its fields, and these;
--          a longer lease that is already set stays; then the longest lease that was
--          requested, 0 if not known, and the owner's own idea of its hold count
--
-- {s1, s2, ..., now}  for each key
--   1   renewed
--   0   some field has no owner
--   -1  some field has another owner
-- now  in ms since the epoch
--
-- A lease that lasts longer than any that was requested was left behind by a clock that was
-- set back: it is cut to the longest. If the count differs, it stays: a re-entry may have
-- requested more.
--
-- A key of another type must not fail the whole batch, hence the pcall. Any other failure
-- does not depend on the key: it does not tell which owner holds the lock.
local SLACK = 1000 -- ms
local states, at = {}, 1
local now = clock()
for i, key in ipairs(KEYS) do
  local owner, lease, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local fields = {unpack(ARGV, at + 3, at + 2 + n)}
  local most, count = tonumber(ARGV[at + 3 + n]), ARGV[at + 4 + n]
  at = at + 5 + n
  local holders = redis.pcall('hmget', key, unpack(fields))
  local state = 1
  if holders.err then
    if not string.find(holders.err, 'WRONGTYPE') then return holders end
    state = -1
  else
    for j = 1, n do
      if not holders[j] then
        state = math.min(state, 0)
      elseif holders[j] ~= owner then
        state = -1
      end
    end
  end
  if state == 1 then
    unbound(key)
    last(key, lease, now)
    for _, field in ipairs(fields) do
      local over, till = ends(key, field, owner)
      if over < now + lease then
        till = lease
      elseif most > 0 and over > now + most + SLACK and redis.call('hget', key, entry(field, owner, 'lock_count')) == count then
        till = most
      end
      if till then redis.call('hset', key, entry(field, owner, 'expire_time'), ms(now + till)) end
    end
  end
  states[i] = state
end
states[#KEYS + 1] = now
return states
