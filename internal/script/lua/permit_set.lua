-- Sets how many permits there are.
--
-- KEYS, ARGV[1..3]  as in permit.lua
-- ARGV[4]  what to do
--   'try'  create a semaphore with this number of permits, unless it exists
--   'set'  set the number of permits, including those given out
--   'add'  add permits, or remove them if negative
-- ARGV[5]  the number
-- ARGV[6]  the largest number allowed, above and below zero
--
-- {1}          done
-- {1, reason}  the same, but Redis refused to publish
-- {0}          it was a semaphore already; nothing was changed
-- {-1}         the key is not a semaphore; nothing was changed
-- {-2}         the number would exceed what Java can count; nothing was changed
--
-- A copy of a call that was answered changes nothing and gets the same reply, whatever that
-- was.
--
-- The number available may be negative, until enough permits have come back. A TTL that is
-- set stays.
local answer = noted() or unfit()
if answer then return answer end
local free, n = available(), tonumber(ARGV[5])
local given = redis.call('zcount', out, 0, '+inf')
if ARGV[4] == 'try' and exists then return settle(0) end
local message, delta = n, n
if ARGV[4] == 'set' and exists then
  delta = n - free - given
  if delta == 0 then message = nil end
elseif ARGV[4] == 'add' and n <= 0 then
  message = nil
end
if math.abs(free + delta) > tonumber(ARGV[6]) then return settle(-2) end
note(1)
if exists then add(delta) else will({'set', value, ARGV[5]}) end
local objection = change()
if objection then return objection end
return {1, message and announce(message)}
