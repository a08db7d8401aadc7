-- The second part of the scripts of the barrier.
--
-- KEYS[1] has one more field, 'broken' -> why, if the barrier is broken; then it has no
-- parties. A party's entry is the end of its lease, a space, and the number of parties
-- that arrived before it.

-- The number in a party's entry.
local function index(entry) return string.match(entry, ' (%d+)$') or '0' end

-- Breaks the barrier for a lease. The parties go first: if a later command failed, they
-- would be lost, and none would pass.
local function shatter(why, who)
  local size, there, what = redis.call('hget', barrier, 'parties') or '', everybody(), 'broken ' .. why .. ' ' .. string.sub(who, 1, 200)
  redis.call('del', barrier)
  for i = 1, #there, 2 do tell(there[i], what) end
  redis.call('hset', barrier, 'mode', 'barrier', 'parties', size, 'broken', what)
  prolong()
  announce()
  return what
end
