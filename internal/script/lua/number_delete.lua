-- Deletes the number of a semaphore or a latch.
--
-- KEYS, ARGV[1]  as in number.lua
-- ARGV[2]   channel
-- ARGV[3]   message
-- ARGV[4..] how to publish: publish, spublish, both, or not at all
--
-- {1}         deleted, or deleted by an earlier copy of this call
-- {1, reason} deleted, but Redis refused to publish
-- {0}         there is none
-- {-1}        what lies there is no number
if redis.call('exists', record) == 1 then return {1} end
local n, exists = read()
if not n then return {-1} end
if not exists then return {0} end
remember('deleted')
local done = change('del', number)
if done ~= 1 then return done end
return {1, announce(4, ARGV[2], ARGV[3])}
