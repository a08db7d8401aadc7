-- Tells how long the counter of a name's fencing tokens, and its fences, were not used, and
-- makes them expire if that is long enough and nothing uses the lock.
--
-- KEYS[1]   the counter
-- KEYS[2]   the queue of a fair lock of that name
-- KEYS[3..] for each name that shares the counter: the lock, its fence, its turns
-- ARGV[1]   for how many seconds they must not have been used
-- ARGV[2]   after how many ms they expire then; 0 to change nothing
--
-- {idle, counters, fences, ttl, used, expiring}
--   idle      in seconds, of the one that was used last; -1 if there are none
--   counters  how many counters there are, fences how many fences
--   ttl       in ms, of the one that expires first; -1 if none does
--   used      1 if the lock is held, 2 if it is waited for; else 0
--   expiring  how many got a TTL now
--
-- A counter and the fences of its name expire together or not at all: tokens that start again
-- below a fence that was kept would be refused. To read a value would be to use it, so none is
-- read. OBJECT must come first: a look at the type counts as a use on some servers.
local keys, present = {KEYS[1]}, {}
for i = 4, #KEYS, 3 do keys[#keys + 1] = KEYS[i] end
local idle = -1
for i, key in ipairs(keys) do
  local seconds = redis.pcall('object', 'idletime', key)
  if type(seconds) == 'table' then return seconds end
  if seconds then
    present[#present + 1] = key
    if idle < 0 or seconds < idle then idle = seconds end
  end
end
local counters = present[1] == KEYS[1] and 1 or 0
local used = 0
if redis.call('llen', KEYS[2]) > 0 then used = 2 end
for i = 3, #KEYS, 3 do
  if redis.call('type', KEYS[i]).ok == 'hash' then
    used = 1
  elseif used == 0 and redis.call('zcard', KEYS[i + 2]) > 0 then
    used = 2
  end
end
local ttl, expiring = -1, 0
for _, key in ipairs(present) do
  local left = redis.call('pttl', key)
  if left < 0 and ARGV[2] ~= '0' and used == 0 and idle >= tonumber(ARGV[1]) then
    expiring = expiring + redis.call('pexpire', key, ARGV[2])
    left = tonumber(ARGV[2])
  end
  if left >= 0 and (ttl < 0 or left < ttl) then ttl = left end
end
return {idle, counters, #present - counters, ttl, used, expiring}
