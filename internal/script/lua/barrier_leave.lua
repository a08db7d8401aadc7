-- Takes back an arrival: if the party is waiting, the barrier breaks. A copy of the
-- arrival that is still in flight comes too late.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
--
-- {1}   done, or the barrier was already over for the party
-- {-1}  the key is not a barrier; nothing was changed
if redis.call('exists', KEYS[2]) == 1 then return {1} end
local up = stands('barrier')
if up == nil then return {-1} end
if up and redis.call('hexists', barrier, party) == 1 then
  shatter('left', party)
else
  tell(party, 'left')
end
return {1}
