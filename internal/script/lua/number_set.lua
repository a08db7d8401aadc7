-- Sets the number of a semaphore or a latch, if there is none.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
-- ARGV[3]   the number
-- ARGV[4]   channel
-- ARGV[5]   message
-- ARGV[6..] how to publish: publish, spublish, or both
--
-- {1}         set, or set by an earlier copy of this call
-- {1, reason} set, but Redis refused to publish
-- {0}         there is one already
-- {-1}        the key does not hold a number
local told = earlier()
if told then return told end
local n, exists = read()
if not n then return remember(-1) end
if exists then return remember(0) end
remember(1)
local done = change('set', number, ARGV[3])
if done.err then return done end
return {1, announce(6, ARGV[4], ARGV[5])}
