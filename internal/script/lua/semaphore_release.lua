-- Gives permits to a semaphore. Its TTL stays.
--
-- KEYS[1], KEYS[2], ARGV[1], ARGV[2]  as in number.lua
-- KEYS[3]   the claims, see claims.lua
-- ARGV[3]   how many
-- ARGV[4]   the largest number allowed
-- ARGV[5]   channel
-- ARGV[6]   the prefix of the channels of clients; a client follows
-- ARGV[7]   how to publish there: publish or spublish; '' if no client listens
-- ARGV[8]   serial, as in freed.lua
-- ARGV[9..] how to publish: publish, spublish, or both
--
-- {1, total}         given, or given by an earlier copy of this call
-- {2, total}         given, and left to Redisson's threads for a moment
-- {1, total, reason} given, but Redis refused to publish
-- {0, total}         there would be too many
-- {-1}               the key does not hold a number
local told = earlier()
if told then return told end
local available = read()
if not available then return remember(-1) end
local back = tonumber(ARGV[3])
local total = available + back
if total > tonumber(ARGV[4]) then return remember(0, total) end
local text = string.format('%d', total)
remember(1, total, true)
local done = change('incrby', number, ARGV[3])
if type(done) == 'table' then return done end
local theirs
if total > 0 then
  text, theirs = tidings(KEYS[3], total, back, ARGV[6], ARGV[7], ARGV[5], ARGV[9], text, tonumber(ARGV[8]))
end
local objection = announce(9, ARGV[5], text)
return {theirs and not objection and 2 or 1, total, objection}
