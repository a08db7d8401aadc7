-- Deletes a semaphore with all its permits.
--
-- KEYS, ARGV[1..3]  as in permit.lua
--
-- {1}   deleted
-- {0}   there was nothing
-- {-1}  the key is not that of a semaphore; nothing was changed
--
-- A copy of a call that was answered changes nothing and gets the same answer,
-- whatever that was. So many permits that freeing them takes long are freed
-- beside other work.
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
