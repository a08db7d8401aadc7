-- Acquires a lock for an owner that acquires it only once, and draws a token, or enters the
-- owner's client into the turns.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the token drawn last, a number; it must never expire, or tokens would start
--          again from 1
-- KEYS[3]  the turns, see turns.lua; only with ARGV[3]
-- ARGV[1]  owner
-- ARGV[2]  lease in ms
-- ARGV[3]  its entry in the turns, if it needs one
-- ARGV[4]  'yields' if the client may not know that the lock is left to Redisson's threads
--
-- {1, token}             acquired, granted before, or acquired by an earlier copy of this
--                        call
-- {2, token}             the same with ARGV[3], after its turn had come: if it had an
--                        entry, it was notified
-- {0, ttl, owner, count, before, new}
--                        held by another owner; ttl in ms, -1 if the key has none. With
--                        ARGV[3] also how many entries come first, and 1 if the entry
--                        is new. With ARGV[4] owner may be '' and
--                        count '~': it is free, but left to Redisson's threads for ttl
-- {-1}                   the lock's key is a hash, but not a plain lock
-- {-2}                   KEYS[2] does not hold a usable token counter; nothing was acquired
--
-- Owners and counts are cut to 200 bytes.
--
-- Every run draws a token, so a repeat wastes one: tokens rise, with gaps. A TTL that
-- Redisson's expire() may have set on the token is removed. The token is drawn before the
-- lock is taken: a script that fails in between has wasted one, too.
local holders = redis.call('hlen', KEYS[1])
if holders > 1 then return {-1} end
local left = holders == 0 and ARGV[4] and leftFor(KEYS[3])
local holder = left and {'', MARK} or redis.call('hgetall', KEYS[1])
if left or holders == 1 and holder[1] ~= ARGV[1] then
  local reply = {0, left or redis.call('pttl', KEYS[1]), string.sub(holder[1], 1, 200), string.sub(holder[2], 1, 200)}
  if ARGV[3] then reply[5], reply[6] = stand(KEYS[3], ARGV[3]) end
  return reply
end
local token, failure = draw()
if not token then return failure end
if holders == 1 then
  local granted = holder[2] == '0' -- for a moment, see lock_acquire.lua
  if granted or redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
  if granted then redis.call('hset', KEYS[1], ARGV[1], 1) end
  return {ARGV[3] and 2 or 1, token}
end
redis.call('hset', KEYS[1], ARGV[1], 1)
local limited = redis.pcall('pexpire', KEYS[1], ARGV[2])
if limited ~= 1 then
  redis.call('del', KEYS[1])
  return limited
end
return {ARGV[3] and redis.pcall('zrem', KEYS[3], ARGV[3]) == 0 and 2 or 1, token}
