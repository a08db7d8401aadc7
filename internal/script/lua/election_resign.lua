-- Ends a term and wakes the candidates.
--
-- KEYS[1], ARGV[1]  as in election.lua
-- ARGV[2]   channel for candidates
-- ARGV[3]   channel for observers
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1}          ended
-- {1, reason}  ended, but Redis refused to publish
-- {0}          the owner does not lead; nothing was changed
if redis.call('hexists', key, owner) == 0 then return {0} end
redis.call('del', key)
return {1, announce(4, ARGV[2], ARGV[3])}
