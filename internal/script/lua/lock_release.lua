-- Releases a lock entirely, whatever its count, and grants it to the next turn or wakes the
-- waiters. An owner that does not hold the lock leaves the turns.
--
-- KEYS[1]   the lock: hash {owner -> count}
-- KEYS[2]   the turns, see turns.lua; not without ARGV[4]
-- ARGV[1]   owner
-- ARGV[2]   channel
-- ARGV[3]   the prefix of the channels of clients that take turns
-- ARGV[4]   how to publish there; nothing if no client takes turns
-- ARGV[5]   how many grants in a row came before
-- ARGV[6]   'shared' if threads of Redisson's are known to take part, 'keep' if the lock is
--           not to be left to them even so
-- ARGV[7..] how to publish otherwise: publish, spublish, or both
--
-- 21            released
-- 22            released, and left to Redisson's threads
-- 23            released, and granted to the next turn
-- {21, reason}  released, but Redis refused to publish
-- 20            the owner does not hold the lock
--
-- A number costs a client less than an array does. No other script returns these numbers.
--
-- The messages come last and are protected: if they failed the script, the caller would
-- not learn that the lock was released.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  if ARGV[4] ~= '' then redis.pcall('zrem', KEYS[2], ARGV[1], '?' .. ARGV[1]) end
  return 20
end
local announced, became, theirs, word = pass(KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7])
local reply, heard, message = 21, false, FREE
if ARGV[6] == 'shared' and announced and not became then
  local r, g
  if theirs == nil then theirs, r, g = redissons(ARGV[2], ARGV[4], ARGV[7]) end
  if theirs then became, word = 'left', r and left(r, g, FREE) end
end
if became == 'given' then
  reply, message = 23, ELSEWHERE
elseif became == 'left' then
  reply, message = 22, word or LEFT
elseif ARGV[6] ~= '' then
  message = OURS
end
if announced then
  for i = 7, #ARGV do
    local sent = redis.pcall(ARGV[i], ARGV[2], message)
    if type(sent) == 'number' then heard = heard or sent > 0 else reply = {21, sent.err} end
  end
  if heard and message == FREE and reply == 21 then
    if theirs == nil then theirs = redissons(ARGV[2], ARGV[4], ARGV[7]) end
    if theirs then reply = 22 end
  end
end
return reply
