-- Takes all permits of a semaphore, also a negative number of them. As with Redisson, a TTL
-- does not stay, and nothing is published.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
--
-- {1, n} n were taken, by this copy of the call or an earlier one
-- {-1}   the key does not hold a number
local told = earlier()
if told then return told end
local available, exists = read()
if not available then return remember(-1) end
if not exists then return remember(1, 0) end
remember(1, available)
local done = change('set', number, '0')
if done.err then return done end
return {1, available}
