-- Releases several locks entirely, whatever their counts, and grants each to its next turn
-- or wakes the waiters. All keys are in one slot.
--
-- KEYS[2*i - 1]  a lock: hash {owner -> count}
-- KEYS[2*i]      its turns, see turns.lua; any key if no client takes turns
-- ARGV[6*i - 5]  the owner of lock i
-- ARGV[6*i - 4]  and on to ARGV[6*i]: how to pass it on, see freed in pass.lua
-- ARGV[6*n + 1]  how to publish otherwise, for n locks: publish, spublish, or both
--
-- {s1, s2, ...}          for each lock
--   1   released
--   2   released, and left to Redisson's threads
--   3   released, and granted to its next turn
--   0   the owner does not hold the lock; nothing was changed
-- {s1, s2, ..., reason}  the same, but Redis refused to publish
--
-- The owner does not hold a key of another type. The messages come last and are protected:
-- if they failed the script, the caller would not learn that the locks were released.
local states, n = {}, #KEYS / 2
for i = 1, n do
  local mine = redis.pcall('hexists', KEYS[2 * i - 1], ARGV[6 * i - 5])
  if type(mine) == 'table' then
    if not string.find(mine.err, 'WRONGTYPE') then return mine end
    mine = 0
  end
  states[i] = mine
end
for i = 1, n do
  if states[i] == 1 then redis.call('del', KEYS[2 * i - 1]) end
end
local reason
for i = 1, n do
  if states[i] == 1 then
    local why
    states[i], why = freed(KEYS[2 * i - 1], KEYS[2 * i], 6 * i - 4, 6 * n + 1)
    reason = reason or why
  end
end
if reason then states[n + 1] = reason end
return states
