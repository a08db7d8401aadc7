-- Acquires the read side for a reader that acquires it only once.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]  lease in ms
-- ARGV[4]  a writer with the same owner in the process, which does not exclude this reader;
--          or ''
--
-- {1}                    acquired, or acquired by an earlier copy of this call
-- {0, ttl, owner, count} held by a writer; ttl in ms, -1 if the key has none
-- {-1}                   the key is a hash, but not a read/write lock
--
-- Owners and counts are cut to 200 bytes.
--
-- A repeat must not set the count back: a re-entry may have raised it since.
--
-- The hold's key comes first: if the rest fails, it ends by its TTL. A lock without TTL would
-- stay forever, so it is deleted if Redis does not set one.
local lease, mine = tonumber(ARGV[3]), redis.call('hexists', lock, owner) == 1
local how = mode()
if not how then return {-1} end
if how == 'write' and not mine and (ARGV[4] == '' or redis.call('hexists', lock, ARGV[4]) == 0) then
  local fields, all = entries()
  local by, count = writer(fields)
  if not (by or all) then by, count = '', '0' end
  if by then return {0, redis.call('pttl', lock), string.sub(by, 1, 200), string.sub(count, 1, 200)} end
end
local first = hold(owner, 1)
if redis.call('pttl', first) < lease then redis.call('set', first, 1, 'px', ARGV[3]) end
if how == 'free' then
  redis.call('hset', lock, 'mode', 'read', owner, 1)
  local limited = redis.pcall('pexpire', lock, ARGV[3])
  if limited ~= 1 then
    redis.call('del', lock, first)
    return limited
  end
  return {1}
end
prolong(lock, lease)
if not mine then redis.call('hset', lock, owner, 1) end
return {1}
