-- Acquires a lock for an owner that acquires it only once, or has its client
-- take a turn.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the turns, see turns.lua; only with ARGV[3]
-- ARGV[1]  owner
-- ARGV[2]  lease in ms
-- ARGV[3]  its entry in the turns, if it is to have one
--
-- 11                     acquired, given before, or acquired by an earlier copy
--                        of this call
-- 12                     the same with ARGV[3], and its turn had come before: if it
--                        had one, it was told so
-- {0, ttl, owner, count, before, new}
--                        held by another; ttl in ms, -1 if the key has none.
--                        With ARGV[3] also how many come first, and 1 if the
--                        entry was not there before
-- -11                    the key is a hash, but not that of a plain lock
--
-- No more than 200 bytes of an owner and a count are told: others may have
-- written what they like.
--
-- A number costs a client less than an array does, and these are no other
-- script's.
--
-- A repeat must not set the count back: a re-entry may have raised it since.
--
-- A key without TTL would stay for ever, so it goes again if Redis does not set
-- one: without the right, or for a lease beyond all bounds.
local holders = redis.call('hlen', KEYS[1])
if holders == 0 then
  redis.call('hset', KEYS[1], ARGV[1], 1)
  local limited = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if limited ~= 1 then
    redis.call('del', KEYS[1])
    return limited
  end
  return ARGV[3] and redis.pcall('zrem', KEYS[2], ARGV[3]) == 0 and 12 or 11
end
if holders > 1 then return -11 end
local ttl = redis.call('pttl', KEYS[1])
local holder = redis.call('hgetall', KEYS[1])
if holder[1] == ARGV[1] then
  if ttl < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return ARGV[3] and 12 or 11
end
local reply = {0, ttl, string.sub(holder[1], 1, 200), string.sub(holder[2], 1, 200)}
if ARGV[3] then reply[5], reply[6] = stand(KEYS[2], ARGV[3]) end
return reply
