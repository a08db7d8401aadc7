-- Gives permits to a semaphore. Its TTL stays.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
-- ARGV[3]   how many
-- ARGV[4]   the largest number allowed
-- ARGV[5]   channel
-- ARGV[6..] how to publish: publish, spublish, or both
--
-- {1, total}         given, or given by an earlier copy of this call
-- {1, total, reason} given, but Redis refused to publish
-- {0, total}         there would be too many
-- {-1}               the key does not hold a number
local told = earlier()
if told then return told end
local available = read()
if not available then return remember(-1) end
local total = available + tonumber(ARGV[3])
if total > tonumber(ARGV[4]) then return remember(0, total) end
local text = string.format('%d', total)
remember(1, total, true)
local done = change('incrby', number, ARGV[3])
if type(done) == 'table' then return done end
return {1, total, announce(6, ARGV[5], text)}
