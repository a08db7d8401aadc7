-- Changes the value of a term.
--
-- KEYS[1], ARGV[1]  as in election.lua
-- ARGV[2]   the new value
-- ARGV[3]   the number of this change in the term, from 1
-- ARGV[4]   channel for observers
-- ARGV[5..] how to publish: publish, spublish, or both
--
-- {1}          done, by this copy of the call or an earlier one
-- {1, reason}  done, but Redis refused to publish
-- {0}          the owner does not lead; nothing was changed
--
-- A copy that comes after a later change is late and changes nothing.
if redis.call('hexists', key, owner) == 0 then return {0} end
if (tonumber(redis.call('hget', key, 'edition')) or 0) >= tonumber(ARGV[3]) then return {1} end
redis.call('hset', key, 'value', ARGV[2], 'edition', ARGV[3])
return {1, announce(5, ARGV[4])}
