-- Removes a party that goes without leaving the double barrier. A copy of its entry that
-- is still in flight comes too late.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
--
-- {1}   done
-- {0}   it is not inside
-- {-1}  the key is not a double barrier; nothing was changed
if outcome() then return {0} end
local up = stands('doublebarrier')
if up == nil then return {-1} end
local entry = redis.call('hget', barrier, party)
if entry == 'left' then return {0} end
tell(party, 'gone')
if not entry then return {0} end
out({party}, 'left', redis.call('hexists', barrier, 'open') == 1)
return {1}
