-- Releases several locks entirely, whatever their counts, and wakes those who
-- wait for each. All keys lie in one slot.
--
-- KEYS[i]        a lock: hash {owner -> count}
-- ARGV[2*i - 1]  its owner
-- ARGV[2*i]      its channel
-- ARGV[2*n + 1..] after those of the n keys, how to publish: publish, spublish,
--                or both
--
-- {s1, s2, ...}          for each key
--   1   released
--   0   the owner does not hold the lock; nothing was changed
-- {s1, s2, ..., reason}  idem, but Redis refused to publish
--
-- A key of another type is not the owner's. The messages are last and protected:
-- were they to fail the script, the caller would be told that nothing was
-- released.
local states = {}
for i = 1, #KEYS do
  local mine = redis.pcall('hexists', KEYS[i], ARGV[2 * i - 1])
  if type(mine) == 'table' then
    if not string.find(mine.err, 'WRONGTYPE') then return mine end
    mine = 0
  end
  states[i] = mine
end
for i = 1, #KEYS do
  if states[i] == 1 then redis.call('del', KEYS[i]) end
end
local reason
for i = 1, #KEYS do
  if states[i] == 1 then
    for j = 2 * #KEYS + 1, #ARGV do
      local sent = redis.pcall(ARGV[j], ARGV[2 * i], '0')
      if type(sent) == 'table' and sent.err then reason = sent.err end
    end
  end
end
if reason then states[#KEYS + 1] = reason end
return states
