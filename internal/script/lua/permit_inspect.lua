-- Reads the numbers of permits, without changing anything.
--
-- KEYS[1..3], ARGV[1..3]  as in permit.lua
-- ARGV[4]  how many of the permits given out to list at most
--
-- {available, given, id, left, ...}  ended permits count as available; left in ms, -1 for
--                                    no end, the first to end first
-- {-1}                               the key is not a semaphore
local FAR = 9007199254740991 -- an infinite score, which no writer of permits sets, reads as this

local free = available()
if not free then return {-1} end
free = free + redis.call('zcount', out, 0, now)
local after = '(' .. string.format('%.0f', now)
local reply = {free, redis.call('zcount', out, after, '+inf')}
local given = redis.call('zrangebyscore', out, after, '+inf', 'withscores', 'limit', 0, ARGV[4])
for i = 1, #given, 2 do
  local till = math.min(tonumber(given[i + 1]) or FAR, FAR)
  reply[#reply + 1] = given[i]
  reply[#reply + 1] = given[i + 1] == ENDLESS and -1 or till - now
end
return reply
