-- Takes a party out of a double barrier that does not leave as it should.
-- Whatever copy of its entry is still to come is too late.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
--
-- {1}   done
-- {0}   it is not inside
-- {-1}  the key is not that of a double barrier; nothing was changed
if redis.call('exists', KEYS[2]) == 1 then return {0} end
local up = stands('doublebarrier')
if up == nil then return {-1} end
local entry = redis.call('hget', barrier, party)
if entry == 'left' then return {0} end
tell(party, 'gone')
if not entry then return {0} end
out({party}, 'left', redis.call('hexists', barrier, 'open') == 1)
return {1}
