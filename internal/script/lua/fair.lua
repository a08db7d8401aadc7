-- The first part of every script of the fair lock: which waiter is next.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the queue: list of waiters, the next one first        (Redisson's)
-- KEYS[3]  their deadlines: zset {waiter -> ms since the epoch}  (Redisson's)
-- KEYS[4]  mortise's waiters among them: hash {waiter -> when it queued or last
--          asked, in ms, a space, and its nonce}. The lock is not granted to a
--          waiter without a nonce: its request needs more than a grant gives
-- KEYS[5]  signs of life: hash
--            client        -> alive until
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
local step = tonumber(ARGV[4])
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local GRACE = 1000   -- how long a head may be silent, or hesitate to take a free lock
local STALE = 5000   -- an observation older than this is ignored
local ALIVE = 10000  -- how long a sign of life lasts, and how long a repeatedly notified head may hesitate
local KEPT = 60000   -- how long mortise's own keys outlast their last use
local DAY = 86400000 -- how long an abandoned queue stays; Redisson keeps it forever
local FRONT = 64     -- how many waiters are checked before they are heads
local SLICE = 200    -- limit of the waiters that one script drops or passes over
local LONG = 50000   -- the longest queue that is searched from end to end

local GIVEN = 3000   -- the lease of a granted lock, in ms; the new holder extends it

local function client(waiter) return string.match(waiter, '^[^:]*') end

-- Whether a holder or waiter is a thread of Redisson's: those are notified by channels of
-- their own.
local function foreign(holder) return string.sub(holder, 15, 15) ~= '8' end

local function mine(waiter) return redis.call('hexists', ours, waiter) == 1 end

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

-- Whether a waiter has a subscriber; nil if that cannot be known.
local function listens(waiter, own)
  if own and ARGV[6] ~= '' then
    local probe = ARGV[6] == 'spublish' and 'shardnumsub' or 'numsub'
    local n = redis.pcall('pubsub', probe, ARGV[5] .. client(waiter))
    if n.err then return nil end
    return n[2] > 0
  end
  local answer
  for probe in string.gmatch(ARGV[2], '%a+') do
    local n = redis.pcall('pubsub', probe, ARGV[1] .. waiter)
    if n.err then return nil end
    if n[2] > 0 then return true end
    answer = false
  end
  return answer
end

-- Whether a waiter shows life; nil if that cannot be known.
local function lives(waiter, own)
  if not own then return listens(waiter) end
  local till = tonumber(redis.call('hget', signs, client(waiter)) or '')
  return till ~= nil and till > now
end

-- Drops a waiter near the head of the queue. A client of ours that let the lock pass has
-- to show life again before the scripts wait for other waiters of its own.
local function drop(waiter, own)
  redis.call('lrem', queue, 1, waiter)
  redis.call('zrem', deadlines, waiter)
  redis.call('hdel', signs, '?' .. waiter)
  if own then
    redis.call('hdel', ours, waiter)
    redis.call('hdel', signs, client(waiter))
  end
end

-- Since when a waiter has been silent; nil if it was not seen so lately.
local function silence(waiter)
  local since, last = string.match(redis.call('hget', signs, '?' .. waiter) or '', '^(%d+) (%d+)$')
  return since and now - tonumber(last) <= STALE and tonumber(since) or nil
end

-- Records that a waiter does not listen.
local function suspect(waiter)
  redis.call('hset', signs, '?' .. waiter, string.format('%.0f %.0f', silence(waiter) or now, now))
  redis.call('pexpire', signs, KEPT)
end

-- Sets a waiter's deadline. The key may have gone with its last one.
local function postpone(waiter, deadline)
  redis.call('zadd', deadlines, string.format('%.0f', deadline), waiter)
  redis.call('pexpire', deadlines, DAY)
end

-- Wakes a waiter. Redis may refuse.
local objection
local function wake(waiter, own)
  if own and ARGV[6] ~= '' then
    local sent = redis.pcall(ARGV[6], ARGV[5] .. client(waiter), '?' .. waiter)
    if type(sent) == 'table' then objection = sent.err end
    return
  end
  for command in string.gmatch(ARGV[3], '%a+') do
    local sent = redis.pcall(command, ARGV[1] .. waiter, '0')
    if type(sent) == 'table' then objection = sent.err end
  end
end

-- How long to wait for the head while the lock is free for it; 0 if it is gone. If threads
-- of Redisson's wait as well, a waiter of mortise's that does not listen is not waited for:
-- perhaps no client would check again later.
local function patience(head, own, over)
  if own and not lives(head, own) then return 0 end
  local since = silence(head)
  if listens(head, own) == false then
    if over and not own or since and now - since >= GRACE then return 0 end
    if own then
      local asked, _, others = entry(head), count()
      if asked and now - asked >= GRACE and others > 0 then return 0 end
    end
    suspect(head)
  else
    since = nil
  end
  local from, at, late, who = string.match(redis.call('hget', signs, 'told') or '', '^(%d+) (%d+)([ !])(.*)$')
  from, at = tonumber(from), tonumber(at)
  if who ~= head or now - at > STALE then from, at = now, nil end
  if now - from >= ALIVE then return 0 end
  if not at or now - at >= GRACE then
    if at and late == '!' then return 0 end
    late = over and not own and '!' or ' '
    -- A Redisson waiter whose deadline has passed drops even itself.
    if late == '!' then postpone(head, now + ALIVE) end
    redis.call('hset', signs, 'told', string.format('%.0f %.0f', from, now) .. late .. head)
    redis.call('pexpire', signs, KEPT)
    wake(head, own)
    at = now
  end
  return (since or at) + GRACE - now
end

local passed = 0 -- how many dead heads this call has dropped

-- Drops dead heads. Returns the head of the queue, in how many ms another look is worth
-- while (0: not known), and how many waiters of another lock precede it. The asking waiter
-- counts as alive.
local function head(asking, free)
  local at, gone = 0, 0
  while at < SLICE and gone < SLICE do
    local first = redis.call('lindex', queue, at)
    if not first or first == asking then return first, 0, at end
    local own = mine(first)
    local deadline = tonumber(redis.call('zscore', deadlines, first) or '')
    local over = deadline and deadline <= now
    local dead
    if not own and not foreign(first) then
      -- Its own client puts off its deadline while it lives.
      dead = over
      if not deadline then postpone(first, now + ALIVE) end
      if not dead then at = at + 1 end
    elseif free then
      local left = patience(first, own, over)
      if left > 0 then return first, left, at end
      dead = true
    elseif deadline and not over then
      return first, 0, at
    else
      local alive = lives(first, own)
      if alive or not deadline then
        -- Without a deadline, Redisson would wait for it forever.
        postpone(first, now + (alive and not own and step or ALIVE))
        return first, 0, at
      end
      dead = true
    end
    if dead then
      drop(first, own)
      gone = gone + 1
      passed = passed + 1
    end
  end
  return redis.call('lindex', queue, at), gone == SLICE and 1 or GRACE, at
end

-- Removes a waiter from the given index of the queue. Redis may refuse.
local function take(waiter, at)
  local left = at == 0 and redis.pcall('lpop', queue) or redis.pcall('lrem', queue, 1, waiter)
  return type(left) == 'table' and left or nil
end

-- Removes a waiter from the queue, wherever it is. A queue that is too long is not
-- searched: the waiter's deadline is set to now, and it goes when it reaches the head.
-- Returns how many waiters were searched at most.
local function leave(waiter)
  local searched = 0
  if redis.call('lindex', queue, 0) == waiter then
    redis.call('lpop', queue)
  else
    searched = redis.call('llen', queue)
    if searched > LONG then
      redis.call('zadd', deadlines, 'xx', string.format('%.0f', now), waiter)
      return 0
    end
    redis.call('lrem', queue, 1, waiter)
  end
  redis.call('zrem', deadlines, waiter)
  return searched
end
