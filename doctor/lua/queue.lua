-- Looks at who waits in the queue of a fair lock, and removes those that it is told to if they are still
-- gone.
--
-- KEYS[1]  the queue: list of waiters, the next one first        (Redisson's)
-- KEYS[2]  their deadlines: zset {waiter -> ms since the epoch}  (Redisson's)
-- KEYS[3]  mortise's waiters among them: hash                    (mortise's)
-- KEYS[4]  signs of life: hash {client -> alive until, ...}      (mortise's)
-- KEYS[5]  the lock
-- ARGV[1]  how to count subscribers: numsub, shardnumsub; '' where that would not cover all servers
-- ARGV[2]  the prefix of a waiter's channel; the waiter follows
-- ARGV[3]  how to publish there: publish, spublish, or both
-- ARGV[4..] the waiters to remove
--
-- {n, waiter, ...}  how many were removed; those that are gone, as far as can be seen at this moment
--
-- A waiter of mortise's is gone if its client has shown no sign of life for ten seconds, as fair_head.lua
-- has it. A thread of Redisson's is gone if nobody listens on its channel; the caller looks twice, because
-- a thread subscribes a moment after it has queued. A waiter with a version-8 UUID that is not in KEYS[3]
-- waits for another lock that shares the queue: it is left alone.
--
-- Redisson drops a head whose deadline has passed, and waits forever for one without deadline: only such
-- threads are removed.
local MOST = 200    -- how many waiters are looked at
local ALIVE = 10000 -- how long a sign of life lasts, in ms
local queue, deadlines, ours, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if redis.call('type', queue).ok ~= 'list' then return {0} end
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Whether it is a waiter at all: another program may have a list of that name.
local function is(waiter)
  return #waiter <= 200 and string.find(waiter, '^%x+%-%x+%-%x+%-%x+%-%x+:%d+$')
end

local function gone(waiter)
  if string.sub(waiter, 15, 15) == '8' then
    local asked = tonumber(string.match(redis.call('hget', ours, waiter) or '', '^%d+'))
    if not asked then return false end
    local till = tonumber(redis.call('hget', signs, string.match(waiter, '^[^:]*')) or '') or 0
    return till <= now and (now - asked >= ALIVE or asked <= -till)
  end
  if ARGV[1] == '' then return not redis.call('zscore', deadlines, waiter) end
  local n = redis.call('pubsub', ARGV[1], ARGV[2] .. waiter)
  return n[2] == 0
end

-- Whether nobody can need the place: a thread of Redisson's may listen on a replica, where it is not seen.
local function over(waiter)
  if string.sub(waiter, 15, 15) == '8' then return true end
  local till = redis.call('zscore', deadlines, waiter)
  return not till or tonumber(till) <= now
end

local wanted = {}
for i = 4, #ARGV do wanted[ARGV[i]] = true end
local reply = {0}
for _, waiter in ipairs(redis.call('lrange', queue, 0, MOST - 1)) do
  if is(waiter) and gone(waiter) then
    if wanted[waiter] and over(waiter) then
      redis.call('lrem', queue, 1, waiter)
      redis.call('zrem', deadlines, waiter)
      redis.call('hdel', ours, waiter)
      reply[1] = reply[1] + 1
    else
      table.insert(reply, waiter)
    end
  end
end
-- Who is next now waits for a message if the lock is free, which may have gone to one of the removed.
local head = reply[1] > 0 and redis.call('exists', KEYS[5]) == 0 and redis.call('lindex', queue, 0)
if head then
  for command in string.gmatch(ARGV[3], '%a+') do redis.pcall(command, ARGV[2] .. head, '0') end
end
return reply
