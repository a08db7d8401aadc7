-- Acquires a lock for an owner that acquires it only once, or enters its client into the
-- turns.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the turns, see turns.lua; only with ARGV[3]
-- ARGV[1]  owner
-- ARGV[2]  lease in ms
-- ARGV[3]  its entry in the turns, if it needs one
-- ARGV[4]  'yields' if the client may not know that the lock is left to Redisson's threads
--
-- 11                     acquired, granted before, or acquired by an earlier copy of this
--                        call
-- 12                     the same with ARGV[3], after its turn had come: if it had an
--                        entry, it was notified
-- {0, ttl, owner, count, before, new}
--                        held by another owner; ttl in ms, -1 if the key has none. With
--                        ARGV[3] also how many entries come first, and 1 if the entry
--                        is new. With ARGV[4] owner may be '' and
--                        count '~': it is free, but left to Redisson's threads for ttl
-- -11                    the key is a hash, but not a plain lock
--
-- Owners and counts are cut to 200 bytes: other writers may store anything.
--
-- A number costs a client less than an array does. No other script returns these numbers.
--
-- A repeat must not set the count back: a re-entry may have raised it since. Nor must it make the
-- lease shorter: only a lock that was granted for a moment, with the count 0, may last longer than
-- its new holder wants.
--
-- A key without TTL would stay forever, so it is deleted if Redis does not set one: for
-- lack of rights, or because the lease is out of range.
local holders = redis.call('hlen', KEYS[1])
local left = holders == 0 and ARGV[4] and leftFor(KEYS[2])
if holders == 0 and not left then
  redis.call('hset', KEYS[1], ARGV[1], 1)
  local limited = redis.pcall('pexpire', KEYS[1], ARGV[2])
  if limited ~= 1 then
    redis.call('del', KEYS[1])
    return limited
  end
  return ARGV[3] and redis.pcall('zrem', KEYS[2], ARGV[3]) == 0 and 12 or 11
end
if holders > 1 then return -11 end
local ttl = left or redis.call('pttl', KEYS[1])
local holder = left and {'', MARK} or redis.call('hgetall', KEYS[1])
if holder[1] == ARGV[1] then
  if ttl < tonumber(ARGV[2]) or holder[2] == '0' then redis.call('pexpire', KEYS[1], ARGV[2]) end
  if holder[2] == '0' then redis.call('hset', KEYS[1], ARGV[1], 1) end
  return ARGV[3] and 12 or 11
end
local reply = {0, ttl, string.sub(holder[1], 1, 200), string.sub(holder[2], 1, 200)}
if ARGV[3] then reply[5], reply[6] = stand(KEYS[2], ARGV[3]) end
return reply
