-- Removes a writer from the lock, whatever its count, and wakes waiters. Readers with the same
-- owner in the process stay: then it is a read lock, which others may join.
--
-- KEYS, ARGV[1..2]  as in rw.lua
-- ARGV[3]   channel
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1}          released
-- {2}          released, and threads of Redisson's listen
-- {1, reason}  released, but Redis refused to publish
-- {0}          the writer is not in the lock; nothing was changed
if redis.call('hexists', lock, owner) == 0 then return {0} end
local goes, left = readers()
return stop(goes, left, 4)
