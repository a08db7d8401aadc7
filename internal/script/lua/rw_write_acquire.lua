-- Acquires the write side for a writer that acquires it only once.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]  lease in ms
--
-- {1}                    acquired, or acquired by an earlier copy of this call
-- {0, ttl, owner, count} held by a writer, or by a reader and perhaps others; ttl in ms of
--                        the one named, -1 if it has none
-- {-1}                   the key is a hash, but not a read/write lock
--
-- Owners and counts are cut to 200 bytes.
--
-- A lock whose readers have no lease left is free, even if its TTL was extended, unless one of them is a thread of
-- Redisson's, see rw.lua. If there are too many readers to look at, those of mortise's without a lease among some of
-- them are removed, and the next attempt finds others.
local lease = tonumber(ARGV[3])
local how = mode()
if not how then return {-1} end
if how == 'write' and redis.call('hexists', lock, owner) == 1 then
  prolong(lock, lease)
  return {1}
end
if how ~= 'free' then
  local fields, all = entries()
  local by, count, left
  if how == 'write' then by, count = writer(fields) end
  if by then return {0, redis.call('pttl', lock), string.sub(by, 1, 200), string.sub(count, 1, 200)} end
  local more, dead
  by, count, left, more, dead = reader(fields, '')
  if by then return {0, left > 0 and left or redis.call('pttl', lock), string.sub(by, 1, 200), string.sub(count, 1, 200)} end
  left = redis.call('pttl', lock)
  for i = #dead, 1, -1 do
    if left > 0 and foreign(dead[i]) and redis.call('hget', lock, dead[i]) ~= '0' then by = table.remove(dead, i) end
  end
  if by then return {0, left, string.sub(by, 1, 200), string.sub(redis.call('hget', lock, by), 1, 200)} end
  if more or not all then
    for _, name in ipairs(dead) do redis.call('hdel', lock, name) end
    return {0, dead[1] and 1 or left, string.sub(dead[1] or '', 1, 200), '0'}
  end
  redis.call('del', lock)
end
redis.call('hset', lock, 'mode', 'write', owner, 1)
local limited = redis.pcall('pexpire', lock, ARGV[3])
if limited ~= 1 then
  redis.call('del', lock)
  return limited
end
return {1}
