-- Acquires several locks at once, all or none, for an owner that acquires each only once.
-- All keys are in one slot.
--
-- KEYS[i]      a lock: hash {owner -> count}
-- KEYS[n + i]  its turns, see turns.lua; only with ARGV[3]
-- ARGV[1]      owner
-- ARGV[2]      lease in ms
-- ARGV[3]      'yields' if the client may not know that a lock is left to Redisson's threads
--
-- {1}                       acquired, or acquired by an earlier copy of this call
-- {0, i, ttl, owner, count} another owner holds KEYS[i]; ttl in ms, -1 if none. With ARGV[3] owner may be ''
--                           and count '~': it is free, but left to Redisson's threads for ttl
-- {-1, i}                   KEYS[i] exists, but is not a plain lock
--
-- Owners and counts are cut to 200 bytes.
--
-- In the last two cases nothing was changed. A repeat must not set a count back: a re-entry
-- may have raised it since.
--
-- A key without TTL would stay forever. So if Redis refuses any of the changes, all keys
-- that were acquired here are deleted.
local free, n = {}, ARGV[3] and #KEYS / 2 or #KEYS
for i = 1, n do
  local holders = redis.pcall('hlen', KEYS[i])
  if type(holders) == 'table' then
    if string.find(holders.err, 'WRONGTYPE') then return {-1, i} end
    return holders
  end
  if holders > 1 then return {-1, i} end
  if holders == 0 then
    local left = ARGV[3] and leftFor(KEYS[n + i])
    if left then return {0, i, left, '', MARK} end
    free[i] = true
  else
    local holder = redis.call('hgetall', KEYS[i])
    if holder[1] ~= ARGV[1] then
      return {0, i, redis.call('pttl', KEYS[i]), string.sub(holder[1], 1, 200), string.sub(holder[2], 1, 200)}
    end
  end
end
for i = 1, n do
  local done = 1
  if free[i] then done = redis.pcall('hset', KEYS[i], ARGV[1], 1) end
  if done == 1 and (free[i] or redis.call('pttl', KEYS[i]) < tonumber(ARGV[2])) then
    done = redis.pcall('pexpire', KEYS[i], ARGV[2])
  end
  if done ~= 1 then
    for j = 1, i do
      if free[j] then redis.call('del', KEYS[j]) end
    end
    return done
  end
end
return {1}
