-- Releases a lock entirely, whatever its count, and grants it to the next turn or wakes the
-- waiters. An owner that does not hold the lock leaves the turns.
--
-- KEYS[1]   the lock: hash {owner -> count}
-- KEYS[2]   the turns, see turns.lua; not without ARGV[2]
-- ARGV[1]   owner
-- ARGV[2..] how to pass the lock on, see freed in pass.lua; ARGV[2] is empty if no client takes turns
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
  if ARGV[2] ~= '' then redis.pcall('zrem', KEYS[2], ARGV[1], '?' .. ARGV[1]) end
  return 20
end
local state, reason = freed(KEYS[1], KEYS[2], 2, 7)
if reason and state < 3 then return {21, reason} end
return 20 + state
