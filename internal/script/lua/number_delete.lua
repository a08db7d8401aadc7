-- Deletes the number of a semaphore or a latch.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
-- ARGV[3]   channel
-- ARGV[4]   message
-- ARGV[5..] how to publish: publish, spublish, both, or not at all
--
-- {1}         deleted, or deleted by an earlier copy of this call
-- {1, reason} deleted, but Redis refused to publish
-- {0}         there is none
-- {-1}        the key does not hold a number
local told = earlier()
if told then return told end
local n, exists = read()
if not n then return remember(-1) end
if not exists then return remember(0) end
remember(1, nil, true)
local done = change('del', number)
if done ~= 1 then return done end
return {1, announce(5, ARGV[3], ARGV[4])}
