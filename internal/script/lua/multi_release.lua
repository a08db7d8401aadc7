-- Releases several locks entirely, whatever their counts, and grants each to its next turn
-- or wakes the waiters. All keys are in one slot.
--
-- KEYS[2*i - 1]  a lock: hash {owner -> count}
-- KEYS[2*i]      its turns, see turns.lua; any key without ARGV[1]
-- ARGV[1]        how to publish to clients that take turns; nothing if none does
-- ARGV[2]        how to publish otherwise: publish, spublish, or both
-- ARGV[3*i]      the owner of lock i
-- ARGV[3*i + 1]  its channel
-- ARGV[3*i + 2]  the prefix of the channels of clients that take turns
--
-- {s1, s2, ...}          for each lock
--   1   released
--   2   released, and left to Redisson's threads
--   3   released, and granted to its next turn
--   0   the owner does not hold the lock; nothing was changed
-- {s1, s2, ..., reason}  the same, but Redis refused to publish
--
-- The owner does not hold a key of another type. The messages come last and are protected:
-- if they failed the script, the caller would not learn that the locks were released.
local states, n = {}, #KEYS / 2
for i = 1, n do
  local mine = redis.pcall('hexists', KEYS[2 * i - 1], ARGV[3 * i])
  if type(mine) == 'table' then
    if not string.find(mine.err, 'WRONGTYPE') then return mine end
    mine = 0
  end
  states[i] = mine
end
for i = 1, n do
  if states[i] == 1 then redis.call('del', KEYS[2 * i - 1]) end
end
local reason
local way = string.match(ARGV[2], '%a+')
for i = 1, n do
  local lock, turns, channel, mine = KEYS[2 * i - 1], KEYS[2 * i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  if states[i] == 1 then
    local announced, became, theirs, word = pass(lock, turns, channel, mine, ARGV[1], 0, '', way)
    if announced and not became then
      local r, g
      if theirs == nil then theirs, r, g = redissons(channel, ARGV[1], way) end
      if theirs then became, word = 'left', r and left(r, g, FREE) end
    end
    local message = became == 'left' and (word or LEFT) or became == 'given' and ELSEWHERE or FREE
    for command in string.gmatch(announced and ARGV[2] or '', '%a+') do
      local sent = redis.pcall(command, channel, message)
      if type(sent) == 'table' then reason = sent.err end
    end
    if became == 'left' then states[i] = 2 elseif became == 'given' then states[i] = 3 end
  end
end
if reason then states[n + 1] = reason end
return states
