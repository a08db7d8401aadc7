-- Begins a term, if there is no leader, for an owner that begins only one.
--
-- KEYS[1], ARGV[1]  as in election.lua
-- KEYS[2]   the number of the last term, a string that must never expire
-- ARGV[2]   lease in ms
-- ARGV[3]   value
-- ARGV[4]   channel for observers
-- ARGV[5..] how to publish: publish, spublish, or both
--
-- {1, term}       elected, or elected by an earlier copy of this call
-- {0, ttl, owner} another owner leads; ttl in ms, -1 if the key has none
-- {-1}            the key is a hash, but not an election
-- {-2}            the last number is none, or too large to be counted on
--
-- Owners are cut to 200 bytes.
--
-- A repeat must not set the value back: it may have changed since.
--
-- The number comes first: if the rest fails, a number is skipped. A key without TTL would
-- stay forever, so it is deleted if Redis does not set one. If Redis refuses to notify the
-- observers, they poll.
local taken = led()
if taken == nil then return {-1} end
if not taken then
  local term, failure = draw()
  if not term then return failure end
  redis.call('hset', key, 'mode', 'election', 'term', term, 'value', ARGV[3], 'edition', 0, owner, 1)
  local limited = redis.pcall('pexpire', key, ARGV[2])
  if limited ~= 1 then
    redis.call('del', key)
    return limited
  end
  announce(5, ARGV[4])
  return {1, term}
end
local ttl, by = redis.call('pttl', key), leader()
if by ~= owner then return {0, ttl, string.sub(by or '', 1, 200)} end
if ttl < tonumber(ARGV[2]) then redis.call('pexpire', key, ARGV[2]) end
return {1, tonumber(redis.call('hget', key, 'term')) or 0}
