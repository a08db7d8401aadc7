-- The first part of every script of the fair lock.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the queue: list of waiters, the next one first        (Redisson's)
-- KEYS[3]  their deadlines: zset {waiter -> ms since the epoch}  (Redisson's)
-- KEYS[4]  mortise's waiters among them: hash {waiter -> when it queued or last
--          asked, in ms, a space, and its nonce}. The lock is not granted to a
--          waiter without a nonce: its request needs more than a grant gives
-- KEYS[5]  signs of life: hash
--            client        -> alive until; or a minus, and when it last let the lock pass.
--                             That a waiter asks is a sign of life as well
--            '?' .. waiter -> seen without a subscriber since, and last
--            'noted'       -> when the front of the queue was last checked
--            'told'        -> since when the head is notified that the lock is free,
--                             when it was last notified, '!' if its deadline had
--                             passed by then (else a space), and the head
--            'scan4' ..    -> how far these keys were searched for remains of the dead
-- ARGV[1]  the prefix of a waiter's channel; the waiter follows
-- ARGV[2]  how to count subscribers: numsub, shardnumsub, both, or nothing where the
--          answer would not cover all servers
-- ARGV[3]  how to publish: publish, spublish, or both
-- ARGV[4]  the distance between the deadlines of Redisson's waiters, in ms
-- ARGV[5]  the prefix of the channels of mortise's clients; a client follows. The
--          messages there: '<waiter> <nonce>' grants the waiter the lock, '?<waiter>'
--          wakes it
-- ARGV[6]  how to publish there; nothing where each of mortise's waiters has a channel
--          of its own as well
--
-- Times are the server's. Redisson drops a head whose deadline has passed, and nothing
-- else. Here such a head stays as long as it shows life; a head that shows none while the
-- lock is free for it is dropped after a moment, whatever its deadline.
--
-- The deadline of a Redisson waiter builds on those before it, and a thread that takes
-- the lock moves all deadlines behind it forward by the longest wait of one. The deadlines
-- of mortise's waiters are a few seconds ahead, are put off while the waiters live, and
-- leave as much more room as the Redisson waiters before them may take away. They add
-- nothing for the waiters behind, so mortise's waiters may come and go without moving
-- any other deadline.
--
-- Two locks may share the queue: Redisson's keys of job and {job} are the same. A waiter
-- of mortise's that waits for the other lock is not a head here.
--
-- The work of a script is bounded, however much the keys contain.
local lock, queue, deadlines, ours, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local GRACE = 1000   -- how long a head may be silent, or hesitate to take a free lock
local STALE = 5000   -- an observation older than this is ignored
local ALIVE = 10000  -- how long a sign of life lasts, and how long a repeatedly notified head may hesitate
local KEPT = 60000   -- how long mortise's own keys outlast their last use
local DAY = 86400000 -- how long an abandoned queue stays; Redisson keeps it forever
local FAR = now + 365 * DAY -- no deadline builds on a later one: none that Redisson makes is that late
local FRONT = 64     -- how many waiters are checked before they are heads
local SLICE = 200    -- limit of the waiters that one script drops or passes over
local LONG = 50000   -- the longest queue that is searched from end to end

local GIVEN = 3000   -- the lease of a granted lock, in ms; the new holder extends it

local function client(waiter) return string.match(waiter, '^[^:]*') end

-- The length of the queue, and how many of its waiters are not mortise's.
local function count()
  local waiting = redis.call('llen', queue)
  return waiting, waiting - redis.call('hlen', ours)
end

-- When a waiter of mortise's last asked, and its nonce; nil if it has none.
local function entry(waiter)
  local at, nonce = string.match(redis.call('hget', ours, waiter) or '', '^(%d+) (.*)$')
  return tonumber(at), nonce ~= '' and nonce or nil
end

-- Removes a waiter from the given index of the queue. Redis may refuse.
local function take(waiter, at)
  local left = at == 0 and redis.pcall('lpop', queue) or redis.pcall('lrem', queue, 1, waiter)
  return type(left) == 'table' and left or nil
end

local passed = 0 -- how many dead heads this call has dropped
local objection  -- why Redis refused to publish
