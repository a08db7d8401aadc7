-- Takes permits, if there are enough in addition to those that others claimed before.
--
-- KEYS[1], KEYS[2], ARGV[1], ARGV[2]  as in number.lua
-- KEYS[3]  the claims, see claims.lua
-- ARGV[3]  how many
-- ARGV[4]  the waiter that claims them otherwise; '' for an acquirer that does not wait
-- ARGV[5]  the client of the waiter, if that listens to its own channel; else ''
--
-- {1, spare}           taken; spare is what others may take without a claim. 0 if an earlier copy of this call has taken
--                      them
-- {0, available, left} there are not enough; available is nil if there is no semaphore,
--                      left is what others claimed before; 0 for a waiter that renews its claim while there are not enough at all
-- {-1}                 the key does not hold a number
--
-- A refusal is not recorded, because a waiter asks again with the same serial. If a waiter
-- gives up in doubt, semaphore_undo.lua records that.
local told, waiter, n = earlier(), ARGV[4], tonumber(ARGV[3])
if told and told[1] == 1 then return {1, 0} end
local available, exists = read()
if not available then return {-1} end
local left, order, others, ended = claimed(KEYS[3], waiter, redis.call, available < n)
if told or available - n < left then -- undone, or a late copy
  local objection
  if waiter ~= '' and not told then objection = claim(KEYS[3], waiter, order, n, ARGV[5], ended) end
  return objection or {0, exists and available, left}
end
if waiter ~= '' then redis.call('hdel', KEYS[3], waiter) end
remember(1)
local rest = change('decrby', number, n)
if type(rest) == 'table' then return rest end
return {1, spare(available - n, others)}
