-- Releases a lock entirely, whatever its count, and lets the next one have it or
-- wakes those who wait. An owner that does not hold the lock leaves the turns.
--
-- KEYS[1]   the lock: hash {owner -> count}
-- KEYS[2]   the turns, see turns.lua; not without ARGV[4]
-- ARGV[1]   owner
-- ARGV[2]   channel
-- ARGV[3]   what the channels of those who take turns begin with
-- ARGV[4]   how to publish there; nothing if nobody takes turns
-- ARGV[5]   how often in a row the lock was given
-- ARGV[6..] how to publish otherwise: publish, spublish, or both
--
-- 21            released
-- 22            released, and left to those who take no turns
-- {21, reason}  released, but Redis refused to publish
-- 20            the owner does not hold the lock
--
-- A number costs a client less than an array does, and these are no other
-- script's.
--
-- The messages are last and protected: were they to fail the script, the caller
-- would be told that nothing was released.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  if ARGV[4] ~= '' then redis.pcall('zrem', KEYS[2], ARGV[1], '?' .. ARGV[1]) end
  return 20
end
local announced, left = pass(KEYS[1], KEYS[2], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6])
local reply = left and 22 or 21
if announced then
  for i = 6, #ARGV do
    local sent = redis.pcall(ARGV[i], ARGV[2], '0')
    if type(sent) == 'table' and sent.err then reply = {21, sent.err} end
  end
end
return reply
