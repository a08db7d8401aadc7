-- Arrives at the barrier, once. Further calls show that the party is alive and still
-- waiting. The last arrival lets all parties pass. Every call breaks the barrier if a
-- party has died.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
-- ARGV[6]  the size of the barrier, in parties
-- ARGV[7]  1 if the party knows that it has arrived, else 0
--
-- {1, n}          waiting; n parties have arrived, this one included
-- {2, 'passed i'} all have arrived; i of them before this one
-- {2, 'broken why who'}  broken; cut to 300 bytes
-- {0}             it had arrived, but Redis has no record of it any more
-- {-1}            the key is not a barrier
-- {-2, parties}   the barrier has this size, cut to 200 bytes
local told = redis.call('getrange', KEYS[2], 0, 299)
if told ~= '' then return {2, told} end
local up = stands('barrier')
if up == nil then return {-1} end
if up then
  local size, broken = redis.call('hget', barrier, 'parties'), redis.call('hget', barrier, 'broken')
  if size ~= ARGV[6] then return {-2, string.sub(size or '', 1, 200)} end
  if broken then return {2, string.sub(broken, 1, 300)} end
  if due() then
    local first
    local there = everybody()
    for i = 1, #there, 2 do
      local till = tonumber(string.match(there[i + 1], '^%d+') or '') or 0
      if till <= now then return {2, shatter('died', there[i])} end
      first = math.min(first or till, till)
    end
    if first then redis.call('hset', barrier, 'next', first) end
  end
end
local entry = redis.call('hget', barrier, party)
if entry then
  redis.call('hset', barrier, party, now + lease .. ' ' .. index(entry))
else
  if ARGV[7] == '1' then return {0} end
  local there = everybody()
  local arrived = #there / 2
  if arrived + 1 >= tonumber(ARGV[6]) then
    local what = 'passed ' .. arrived
    redis.call('del', barrier) -- first: if a later command failed, no party would pass
    for i = 1, #there, 2 do tell(there[i], 'passed ' .. index(there[i + 1])) end
    tell(party, what)
    announce()
    return {2, what}
  end
  local till = math.min(now + lease, tonumber(redis.call('hget', barrier, 'next') or '') or now + lease)
  redis.call('hset', barrier, 'mode', 'barrier', 'parties', ARGV[6], 'next', till, party, now + lease .. ' ' .. arrived)
end
return prolong() or {1, redis.call('hlen', barrier) - 3} -- without mode, parties and next
