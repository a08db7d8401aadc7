-- Gives permits to a semaphore. Its TTL stays.
--
-- KEYS, ARGV[1]  as in number.lua
-- ARGV[2]   how many
-- ARGV[3]   the most that there may be
-- ARGV[4]   channel
-- ARGV[5..] how to publish: publish, spublish, or both
--
-- {1, total}         given, or given by an earlier copy of this call
-- {1, total, reason} given, but Redis refused to publish
-- {0, total}         there would be too many
-- {-1}               what lies there is no number
local outcome = redis.call('get', record)
if outcome then return {1, tonumber(outcome)} end
local available = read()
if not available then return {-1} end
local total = available + tonumber(ARGV[2])
if total > tonumber(ARGV[3]) then return {0, total} end
local text = string.format('%d', total)
remember(text)
local done = change('incrby', number, ARGV[2])
if type(done) == 'table' then return done end
return {1, total, announce(5, ARGV[4], text)}
