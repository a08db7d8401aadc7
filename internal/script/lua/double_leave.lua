-- Leaves a double barrier, once. Further calls ask whether all parties have left. Removes
-- dead parties.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
--
-- {1, n}            it has left, and n others are still inside
-- {2, 'over'}       all have left
-- {2, 'broken why who'}  the same, but one of them went without leaving
-- {0}               Redis has no record of the party any more
-- {-1}              the key is not a double barrier
local told = outcome()
if told then return {2, told} end
local up = stands('doublebarrier')
if up == nil then return {-1} end
if up then
  redis.call('hdel', barrier, '') -- removes nothing; later writes are not refused for lack of memory
  bury()
end
local entry = redis.call('hget', barrier, party)
if entry and entry ~= 'left' then out({party}) end
told = outcome()
if told then return {2, told} end
if not entry then return {0} end
local out, all = redis.call('hget', barrier, 'out'), redis.call('hget', barrier, 'parties')
return prolong() or {1, (tonumber(all or '') or 0) - (tonumber(out or '') or 0)}
