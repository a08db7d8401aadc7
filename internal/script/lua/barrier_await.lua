-- Arrives at the barrier, once, and shows from then on that the party lives and
-- waits. The last one to arrive lets all pass. Whoever calls breaks the barrier
-- if a party has died.
--
-- KEYS, ARGV[1..5]  as in barrier.lua
-- ARGV[6]  for how many parties the barrier is
-- ARGV[7]  1 if the party knows that it has arrived, else 0
--
-- {1}             it waits
-- {2, 'passed i'} all have arrived; i of them before this one
-- {2, 'broken why who'}  no more than 300 bytes of it
-- {0}             it had arrived, but Redis does not know of it any more
-- {-1}            the key is not that of a barrier
-- {-2, parties}   the barrier is for so many parties
local told = redis.call('get', KEYS[2])
if told then return {2, string.sub(told, 1, 300)} end
local up = stands('barrier')
if up == nil then return {-1} end
if up then
  local size, broken = redis.call('hget', barrier, 'parties'), redis.call('hget', barrier, 'broken')
  if size ~= ARGV[6] then return {-2, size or ''} end
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
    redis.call('del', barrier) -- first: were the rest to fail, nobody would pass
    for i = 1, #there, 2 do tell(there[i], 'passed ' .. index(there[i + 1])) end
    tell(party, what)
    announce()
    return {2, what}
  end
  local till = math.min(now + lease, tonumber(redis.call('hget', barrier, 'next') or '') or now + lease)
  redis.call('hset', barrier, 'mode', 'barrier', 'parties', ARGV[6], 'next', till, party, now + lease .. ' ' .. arrived)
end
return prolong() or {1}
