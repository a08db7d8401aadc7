-- Removes a writer from the lock, whatever its count, but leaves the lock taken for a while:
-- another writer's name takes the place of its owner, so that nobody holds it, and no late copy
-- of a script of the owner changes it. If a reader with the same owner in the process has a
-- lease, the lock does not stay taken: it is a read lock then, as after any release.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]   channel
-- ARGV[4]   the name in the place of the owner
-- ARGV[5]   how long the lock stays taken, in ms
-- ARGV[6..] how to publish: publish, spublish, or both
--
-- {1}          released, by this call or by an earlier copy of it that left the lock taken
-- {2}          released to readers, and threads of Redisson's listen
-- {1, reason}  released to readers, but Redis refused to publish
-- {0}          the writer is not in the lock; nothing was changed
--
-- Readers without a lease are removed: a late copy of an acquisition would bring them back. A
-- repeat does not lengthen the TTL: it may be late.
if redis.call('hexists', lock, owner) == 0 then
  if redis.call('hexists', lock, ARGV[4]) == 0 then return {0} end
  local left = redis.call('pttl', lock)
  if left < 0 or left > tonumber(ARGV[5]) then redis.call('pexpire', lock, ARGV[5]) end
  return {1}
end
local goes, left, fields = readers()
if goes then return stop(goes, left, 6) end
unbound()
redis.call('hset', lock, ARGV[4], 1)
redis.call('pexpire', lock, ARGV[5])
for i = 1, #fields, 2 do
  if fields[i] ~= 'mode' and fields[i] ~= ARGV[4] then redis.call('hdel', lock, fields[i]) end
end
return {1}
