-- Deletes a semaphore with all its permits.
--
-- KEYS, ARGV[1..3]  as in permit.lua
--
-- {1}   deleted, or deleted by an earlier copy of this call
-- {0}   there was nothing
-- {-1}  the key is not that of a semaphore; nothing was changed
if noted() then return {1} end
if not available() then return {-1} end
if redis.call('zcard', out) == 0 and not exists then return {0} end
note(1)
will({'del', value, out, claims})
return change() or {1}
