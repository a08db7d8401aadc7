-- Acquires fields of a group, all or none, for an owner that acquires them only once.
--
-- KEYS[1]   the group, see group.lua
-- ARGV[1]   owner
-- ARGV[2]   lease in ms
-- ARGV[3..] fields
--
-- {1}                     acquired, or acquired by an earlier copy of this call
-- {0, left, owner, count} others hold some fields; the owner whose lease ends last, and
--                         for how many ms it lasts
-- {-1}                    the key is a hash, but not a group
--
-- Owners and counts are cut to 200 bytes.
--
-- A repeat must not set counts back: a re-entry may have raised them since.
--
-- The entries of an owner whose lease has ended are removed; with Redisson they would
-- count again when it comes back. A key without TTL would stay forever, so it is deleted
-- if Redis does not set one.
--
-- A refusal makes the key outlast its leases, if it would end with them: Redisson's holders
-- do not do so. A key that ends long before its leases stays as it is: then the clock of
-- their writer was wrong.
local key, owner, lease = KEYS[1], ARGV[1], tonumber(ARGV[2])
local size = redis.call('hlen', key)
local exists = size > 0
if exists and other(key, size) then return {-1} end
local fields = {unpack(ARGV, 3)}
local now = clock()
local holders = redis.call('hmget', key, unpack(fields))
local left, by, count = 0, nil, nil
for i, field in ipairs(fields) do
  local holder = holders[i]
  if holder and holder ~= owner then
    local rest = ends(key, field, holder) - now
    if rest > left then
      left, by, count = rest, holder, redis.call('hget', key, entry(field, holder, 'lock_count')) or '0'
    end
  end
end
if by then
  local ttl = redis.call('pttl', key)
  if ttl > left - LINGER and ttl < left + LINGER then redis.pcall('pexpire', key, ms(left + LINGER)) end
  return {0, left, string.sub(by, 1, 200), string.sub(count, 1, 200)}
end

if exists then last(key, lease, now) end
for i, field in ipairs(fields) do
  local holder = holders[i]
  if holder == owner then
    redis.call('hset', key, entry(field, owner, 'expire_time'), ms(math.max(ends(key, field, owner), now + lease)))
  else
    if holder then
      redis.call('hdel', key, entry(field, holder, 'expire_time'), entry(field, holder, 'lock_count'))
    end
    redis.call('hset', key, field, owner, entry(field, owner, 'expire_time'), ms(now + lease), entry(field, owner, 'lock_count'), '1')
  end
  if not exists then
    local limited = redis.pcall('pexpire', key, ms(lease + LINGER))
    if limited ~= 1 then
      redis.call('del', key)
      return limited
    end
    exists = true
  end
end
if size > 0 then sweep(key, now, size) end
return {1}
