-- Acquires permits, all or none, under ids that were never used before.
--
-- KEYS[1..3], ARGV[1..3]  as in permit.lua
-- ARGV[4]   lease in ms
-- ARGV[5]   'claim' for a waiter, followed by its client if that listens to its own channel; else 'once'
-- ARGV[6..] the ids, one for each permit
--
-- {1, spare}                  acquired; spare is what others may acquire without a claim. 0 if an earlier copy of this call
--                             has acquired them
-- {0, available, left, next}  refused; available is nil if there is no semaphore, left the
--                             number of permits claimed by others before (0 as in semaphore_acquire.lua), next the ms until
--                             the first permit ends, -1 if none does
-- {-1}                        the key is not a semaphore
--
-- A waiter claims the permits, unless the semaphore does not have as many at all.
local MANY = 1000 -- limit of the ended permits that one run takes back

local wanted, till, first = #ARGV - 5, now + ARGV[4], ARGV[6]
local client = string.match(ARGV[5], '^claim(.*)$') -- nil for no waiter
local free = available()
if not free then return {-1} end

local permits, mine, over, again = {}, {}, {}, false -- over: pairs of the stored id and its end
for i = 6, #ARGV do
  local permit = raw(ARGV[i])
  local ending = ends(permit)
  permits[#permits + 1] = permit
  if ending and ending > now then
    again = true
    if ending < till then will({'zadd', out, till, permit}) end
  elseif ending then
    mine[permit] = string.format('%.0f', ending)
    over[#over + 1] = permit
    over[#over + 1] = mine[permit]
  end
end
if again then return change() or {1, 0} end

local ended = redis.call('zrangebyscore', out, 0, now, 'withscores', 'limit', 0, MANY)
for i = 1, #ended, 2 do
  if not mine[ended[i]] then
    over[#over + 1] = ended[i]
    over[#over + 1] = ended[i + 1]
  end
end
local back = #over / 2
free = free + back
local leave, order, others, stale = claimed(claims, first, redis.call, free < wanted)
if free < wanted + leave then
  local head = redis.call('zrangebyscore', out, '(' .. string.format('%.0f', now), '+inf', 'withscores', 'limit', 0, 1)
  if client and wanted <= free + redis.call('zcard', out) - back then
    local objection = claim(claims, first, order, wanted, client, stale)
    if objection then return objection end
  end
  add(back)
  remove(over)
  local objection = change()
  if objection then return objection end
  if back > 0 and free > 0 then announce(free) end
  return {0, (exists or back > 0) and free, leave, head[2] and head[2] ~= ENDLESS and tonumber(head[2]) - now or -1}
end

-- The permits of a semaphore with a TTL must not outlive it; it may have less than a
-- millisecond left.
local life = redis.call('pttl', value)
add(back - wanted)
will({'zrem', out, ''}) -- no such member: without the right, what follows could not be undone
for _, permit in ipairs(permits) do
  will({'zadd', out, till, permit}, mine[permit] and {'zadd', out, mine[permit], permit} or {'zrem', out, permit})
end
if life >= 0 then will({'pexpire', out, math.max(life, 1)}) end
if client then will({'hdel', claims, first}) end
remove(over, mine)
local objection = change()
if objection then return objection end
if back > 0 and free > wanted then announce(free - wanted) end
return {1, spare(free - wanted, others)}
