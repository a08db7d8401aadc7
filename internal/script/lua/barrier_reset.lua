-- Resets the barrier. Waiting parties learn that it is broken.
--
-- KEYS, ARGV[1..5]  as in barrier.lua; here the party is a name drawn for this call,
--          so that a copy of the call resets nothing else
--
-- {1}   done, by this copy of the call or an earlier one
-- {-1}  the key is not a barrier; nothing was changed, nor will a late copy change it
local told = redis.call('getrange', KEYS[2], 0, 9)
if told ~= '' then return {told == 'refused' and -1 or 1} end
local up = stands('barrier')
if up == nil then
  tell(party, 'refused')
  return {-1}
end
local there = everybody()
if up then redis.call('del', barrier) end
for i = 1, #there, 2 do tell(there[i], 'broken reset ' .. party) end
tell(party, 'reset')
announce()
return {1}
