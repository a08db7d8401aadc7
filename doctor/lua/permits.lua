-- Looks at the permits of a semaphore, and takes back those that have expired if it is told to.
--
-- KEYS[1]  the ends of the permits: zset {id -> ms since the epoch}  (Redisson's)
-- KEYS[2]  the number of available permits: string                   (Redisson's)
-- ARGV[1]  for how long a permit must have expired, in ms
-- ARGV[2]  'fix' to take them back
-- ARGV[3]  the channel that announces permits
-- ARGV[4..] how to publish there: publish, spublish
--
-- {expired, endless, all, number, taken}  how many have expired, and have no end; of all; the number, ''
--                                         if there is none, '-' if it is no number; how many were taken back
--
-- Times are the server's. Every acquisition takes expired permits back in this way, mortise's and Redisson's.
local ENDLESS = 922337203685477 -- what Redisson writes
local SOME = 1000
local nothing = {0, 0, 0, '0', 0}
if redis.call('type', KEYS[1]).ok ~= 'zset' then return nothing end
-- An id has 16 bytes, or 32 digits (Redisson up to 3.16): else it is the key of another program.
local function is(permit) return #permit == 16 or #permit == 32 and string.find(permit, '^%x+$') end
local first = redis.call('zrange', KEYS[1], 0, 0)[1]
if not first or not is(first) then return nothing end
local number = ''
local kind = redis.call('type', KEYS[2]).ok
if kind == 'string' then
  number = redis.call('get', KEYS[2])
  if #number > 17 or not string.find(number, '^%-?%d+$') then number = '-' end
elseif kind ~= 'none' then
  number = '-'
end
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local before = string.format('%.0f', now - ARGV[1])
local reply = {
  redis.call('zcount', KEYS[1], '-inf', before), redis.call('zcount', KEYS[1], ENDLESS, '+inf'),
  redis.call('zcard', KEYS[1]), number, 0,
}
if ARGV[2] ~= 'fix' or number == '' or number == '-' or reply[1] == 0 then return reply end

local over = redis.call('zrangebyscore', KEYS[1], '-inf', before, 'limit', 0, SOME)
for _, permit in ipairs(over) do
  if not is(permit) then return reply end
end
-- The number first: it may be one that cannot be counted up, or the user may not.
local free = redis.pcall('incrby', KEYS[2], #over)
if type(free) ~= 'number' then return free end
local removed = redis.pcall('zrem', KEYS[1], unpack(over))
if removed ~= #over then
  redis.call('incrby', KEYS[2], -#over)
  return removed
end
reply[5] = #over
if free > 0 then
  for i = 4, #ARGV do redis.pcall(ARGV[i], ARGV[3], string.format('%d', free)) end
end
return reply
