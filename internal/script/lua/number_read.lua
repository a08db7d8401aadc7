-- Reads the number of a semaphore or a latch, without changing it.
--
-- KEYS[1]  the number: string, in decimal
--
-- {1, n}  the number
-- {0}     there is none
-- {-1}    the key does not hold a number
local n, exists = read()
if not n then return {-1} end
if not exists then return {0} end
return {1, n}
