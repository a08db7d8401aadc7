-- Deletes a semaphore with all its permits.
--
-- KEYS, ARGV[1..3]  as in permit.lua
--
-- {1}   deleted
-- {0}   there was nothing
-- {-1}  the key is not a semaphore; nothing was changed
--
-- A copy of a call that was answered changes nothing and gets the same reply, whatever that
-- was. If there are so many permits that freeing them takes long, Redis frees them in the
-- background.
local MANY = 10000

unbound()
local answer = noted() or unfit()
if answer then return answer end
available()
local given = redis.call('zcard', out)
if given == 0 and not exists then return settle(0) end
note(1)
will({given > MANY and 'unlink' or 'del', value, out, claims})
return change() or {1}
