-- Takes back an arrival: if the party waits, the barrier breaks. Whatever copy
-- of its arrival is still to come is too late.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
--
-- {1}   done, or it was over for the party before
-- {-1}  the key is not that of a barrier; nothing was changed
if redis.call('exists', KEYS[2]) == 1 then return {1} end
local up = stands('barrier')
if up == nil then return {-1} end
if up and redis.call('hexists', barrier, party) == 1 then
  shatter('left', party)
else
  tell(party, 'left')
end
return {1}
