-- Enters a double barrier, once. Further calls show that the party is alive and still
-- waiting for the others. Removes dead parties.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
-- ARGV[6]  the size of the barrier, in parties
-- ARGV[7]  1 if the party knows that it has entered, else 0
--
-- {1, open, n}     inside; open is 1 once all parties are, else 0, and n of them are
-- {0, ttl, party}  all places are taken, one of them by this party; ttl in ms, -1 if the
--                  key has none; the name is cut to 200 bytes
-- {2}              it had entered, but is not inside any more
-- {-1}             the key is not a double barrier
-- {-2, parties}    the barrier has this size, cut to 200 bytes
if outcome() then return {2} end
local up = stands('doublebarrier')
if up == nil then return {-1} end
if up then
  local size = redis.call('hget', barrier, 'parties')
  if size ~= ARGV[6] then return {-2, string.sub(size or '', 1, 200)} end
  bury()
end
local entry, open = redis.call('hget', barrier, party), redis.call('hget', barrier, 'open')
if entry == 'left' or not entry and (ARGV[7] == '1' or redis.call('exists', KEYS[2]) == 1) then return {2} end
if entry then
  redis.call('hset', barrier, party, now + lease)
elseif open then
  return {0, redis.call('pttl', barrier), string.sub(everybody()[1] or '', 1, 200)}
else
  local till = math.min(now + lease, tonumber(redis.call('hget', barrier, 'next') or '') or now + lease)
  redis.call('hset', barrier, 'mode', 'doublebarrier', 'parties', ARGV[6], 'next', till, party, now + lease)
end
local limited = prolong()
if limited then return limited end
if not entry and inside() >= tonumber(ARGV[6]) then
  local there = everybody()
  for i = 1, #there, 2 do tell(there[i], 'inside') end
  redis.call('hset', barrier, 'open', 1) -- last: if a former command failed, nobody is let in
  announce()
  open = 1
end
return {1, open and 1 or 0, open and tonumber(ARGV[6]) or redis.call('hlen', barrier) - 3} -- without mode, parties and next
