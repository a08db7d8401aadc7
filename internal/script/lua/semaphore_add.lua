-- Adds permits to a semaphore, or removes some, held or not: the number may become negative.
-- As with Redisson, a TTL does not stay.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
-- ARGV[3]   how many, may be negative
-- ARGV[4]   the largest number allowed, above and below zero
-- ARGV[5]   channel
-- ARGV[6..] how to publish: publish, spublish, or both
--
-- {1, total}         added, or added by an earlier copy of this call
-- {1, total, reason} added, but Redis refused to publish
-- {0, total}         there would be too many, or too few
-- {-1}               the key does not hold a number
local told = earlier()
if told then return told end
local available = read()
if not available then return remember(-1) end
local total = available + tonumber(ARGV[3])
if math.abs(total) > tonumber(ARGV[4]) then return remember(0, total) end
local text = string.format('%d', total)
remember(1, total)
local done = change('set', number, text)
if done.err then return done end
return {1, total, announce(6, ARGV[5], text)}
