-- Counts a latch down by one, and opens it at zero by deleting its key.
--
-- KEYS, ARGV[1], ARGV[2]  as in number.lua
-- ARGV[3]   channel
-- ARGV[4..] how to publish: publish, spublish, or both
--
-- {1, n}         n are left, also if an earlier copy of this call did it
-- {1, 0, reason} it is open, but Redis refused to publish
-- {-1}           the key does not hold a number
--
-- An open latch stays open, and nothing is published: as with Redisson.
local told = earlier()
if told then return told end
local n, exists = read()
if not n then return remember(-1) end
if not exists then return remember(1, 0) end
local left = math.max(n - 1, 0)
remember(1, left, true)
local done
if left > 0 then done = change('decr', number) else done = change('del', number) end
if type(done) == 'table' then return done end
if n ~= 1 then return {1, left} end
return {1, 0, announce(4, ARGV[3], '0')}
