-- Renews leases on fields of groups in a batch. All keys lie in one slot.
--
-- KEYS[i]  a group, see group.lua; it may come several times
-- ARGV     for each key: its owner, its lease in ms, the number of its fields,
--          and these; a longer lease that is already set stays
--
-- {s1, s2, ...}  for each key
--   1   renewed
--   0   nobody has some field
--   -1  somebody else has some field
--
-- A key of another type must not fail the whole batch, hence the pcall. Any
-- other failure is none of the key's: it says nothing about who has the lock.
local states, at = {}, 1
local now = clock()
for i, key in ipairs(KEYS) do
  local owner, lease, n = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local fields = {unpack(ARGV, at + 3, at + 2 + n)}
  at = at + 3 + n
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
      if ends(key, field, owner) < now + lease then
        redis.call('hset', key, entry(field, owner, 'expire_time'), ms(now + lease))
      end
    end
  end
  states[i] = state
end
return states
