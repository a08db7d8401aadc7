-- Takes permits, if there are as many besides those that others claimed before.
--
-- KEYS[1], KEYS[2], ARGV[1], ARGV[2]  as in number.lua
-- KEYS[3]  the claims, see claims.lua
-- ARGV[3]  how many
-- ARGV[4]  waiter, who claims them otherwise; '' for one that does not wait
--
-- {1}                  taken, or taken by an earlier copy of this call
-- {0, available, left} there are not enough; so many have to be left to others
-- {-1}                 what lies there is no number
--
-- A refusal is not recorded, for who waits asks again with the same serial. Who
-- gives up in doubt has semaphore_undo.lua record that.
local told, waiter, n = earlier(), ARGV[4], tonumber(ARGV[3])
if told and told[1] == 1 then return {1} end
local available = read()
if not available then return {-1} end
local left, order, _, ended = claimed(KEYS[3], waiter)
if told or available - n < left then -- undone, or late
  local objection
  if waiter ~= '' and not told then objection = claim(KEYS[3], waiter, order, n, ended) end
  return objection or {0, available, left}
end
if waiter ~= '' then redis.call('hdel', KEYS[3], waiter) end
remember(1)
local rest = change('decrby', number, n)
if type(rest) == 'table' then return rest end
return {1}
