-- Sets the count of a reader that has a lease, and extends all its holds.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]  the new count, absolute, so that a repeat changes nothing; 0 if it stays as it is
-- ARGV[4]  lease in ms; a longer one that is already set stays
--
-- {1}  done
-- {0}  the reader has no lease any more; nothing was changed
--
-- All holds of a reader last as long as its longest: Redisson deletes the one with the
-- highest number, whichever was released. The count comes last: it must not stay raised by a
-- re-entry that failed.
local has = redis.call('hget', lock, owner)
if not has or redis.call('exists', hold(owner, 1)) == 0 then return {0} end
local count, lease = tonumber(ARGV[3] ~= '0' and ARGV[3] or has) or 1, tonumber(ARGV[4])
for i = 1, math.min(count, HOLDS) do
  if redis.call('pttl', hold(owner, i)) < lease then redis.call('set', hold(owner, i), 1, 'px', ARGV[4]) end
end
prolong(lock, lease)
if ARGV[3] ~= '0' then
  discard(owner, count + 1)
  redis.call('hset', lock, owner, ARGV[3])
end
return {1}
