-- Sets the number of a semaphore or a latch, if there is none.
--
-- KEYS, ARGV[1]  as in number.lua
-- ARGV[2]   the number
-- ARGV[3]   channel
-- ARGV[4]   message
-- ARGV[5..] how to publish: publish, spublish, or both
--
-- {1}         set, or set by an earlier copy of this call
-- {1, reason} set, but Redis refused to publish
-- {0}         there is one already
-- {-1}        what lies there is no number
if redis.call('exists', record) == 1 then return {1} end
local n, exists = read()
if not n then return {-1} end
if exists then return {0} end
remember(ARGV[2])
local done = change('set', number, ARGV[2])
if done.err then return done end
return {1, announce(5, ARGV[3], ARGV[4])}
