-- The first part of every script of the fair lock: who is next.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the queue: list of waiters, the next one first       (Redisson's)
-- KEYS[3]  their deadlines: zset {waiter -> ms since the epoch}  (Redisson's)
-- KEYS[4]  those of them that are mortise's: hash {waiter -> when it queued or
--          asked last, in ms, and behind a space its nonce}. Without a nonce
--          the lock cannot be given to it: it asks for more
-- KEYS[5]  signs of life: hash
--            client        -> alive until
--            '?' .. waiter -> seen without a subscriber since, and last
--            'noted'       -> when the front of the queue was last looked at
--            'told'        -> since when somebody is told that the lock is free,
--                             when it was last told, with '!' that its deadline
--                             had passed by then, and who it is
--            'scan4' ..    -> how far these keys were searched for what the dead left
-- ARGV[1]  what the channel of a waiter begins with; the waiter follows
-- ARGV[2]  how to ask for subscribers: numsub, shardnumsub, both, or nothing
--          where the answer would not cover all servers
-- ARGV[3]  how to publish: publish, spublish, or both
-- ARGV[4]  by how much the deadlines of Redisson's waiters lie apart, in ms
-- ARGV[5]  what the channels of mortise's clients begin with; a client follows.
--          They hear '<waiter> <nonce>', the lock is the waiter's now, and
--          '?<waiter>', it is to look
-- ARGV[6]  how to publish there; nothing where each of mortise's waiters has a
--          channel of its own, too
--
-- Times are the server's. Redisson drops a head whose deadline has passed, and
-- nothing else. Here a head whose deadline has passed stays as long as it shows
-- life, and one that shows none while the lock is free for it goes after a
-- moment, whatever its deadline.
--
-- Redisson's waiters reckon with the deadlines of those before them, and one that
-- takes the lock moves up all behind it by what it waits at most. The deadlines
-- of mortise's waiters are a few seconds ahead, are put off while they live, and
-- leave that much more room as Redisson's waiters before them may take away; but
-- they add nothing for those behind, so that mortise's may come and go without
-- moving anybody.
--
-- The queue may be that of two locks: Redisson's keys of job and {job} are the
-- same. A waiter that is mortise's, and not of this lock, is not its head.
--
-- However much lies in the keys, a script looks at so much of it and no more.
local lock, queue, deadlines, ours, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local step = tonumber(ARGV[4])
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local GRACE = 1000   -- how long a head may be silent, or hesitate to take a lock that is free
local STALE = 5000   -- what was seen so long ago, and not since, counts no more
local ALIVE = 10000  -- how long a client's sign of life counts, and a head may hesitate that is told again and again
local KEPT = 60000   -- how long the keys that are mortise's own outlast their last use
local DAY = 86400000 -- how long a queue that everybody forgot stays; Redisson keeps it for ever
local FRONT = 64     -- how many waiters are looked at before it is their turn
local SLICE = 200    -- how many waiters one script drops or passes over at most
local LONG = 50000   -- how long a queue is searched from end to end

local GIVEN = 3000   -- for how long a lock is given; who gets it makes it last

local function client(waiter) return string.match(waiter, '^[^:]*') end

-- Whether a holder or waiter is a thread of Redisson's: it is told by a channel of
-- its own.
local function foreign(holder) return string.sub(holder, 15, 15) ~= '8' end

local function mine(waiter) return redis.call('hexists', ours, waiter) == 1 end

-- How many are in the queue, and how many of those are not of mortise's.
local function count()
  local waiting = redis.call('llen', queue)
  return waiting, waiting - redis.call('hlen', ours)
end

-- When a waiter of mortise's asked last, and its nonce; nil if it has none.
local function entry(waiter)
  local at, nonce = string.match(redis.call('hget', ours, waiter) or '', '^(%d+) (.*)$')
  return tonumber(at), nonce ~= '' and nonce or nil
end

-- Whether somebody is subscribed for a waiter; nil if that cannot be known.
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

-- Takes a waiter out of the queue, from near its head. A client of ours that let
-- the lock go by has to show anew that it lives before others of its waiters are
-- waited for.
local function drop(waiter, own)
  redis.call('lrem', queue, 1, waiter)
  redis.call('zrem', deadlines, waiter)
  redis.call('hdel', signs, '?' .. waiter)
  if own then
    redis.call('hdel', ours, waiter)
    redis.call('hdel', signs, client(waiter))
  end
end

-- Since when a waiter has been silent; nil if it was not seen so of late.
local function silence(waiter)
  local since, last = string.match(redis.call('hget', signs, '?' .. waiter) or '', '^(%d+) (%d+)$')
  return since and now - tonumber(last) <= STALE and tonumber(since) or nil
end

-- Notes that a waiter does not listen.
local function suspect(waiter)
  redis.call('hset', signs, '?' .. waiter, string.format('%.0f %.0f', silence(waiter) or now, now))
  redis.call('pexpire', signs, KEPT)
end

-- Sets a waiter's deadline. The last one may have gone with its key.
local function postpone(waiter, deadline)
  redis.call('zadd', deadlines, string.format('%.0f', deadline), waiter)
  redis.call('pexpire', deadlines, DAY)
end

-- Tells a waiter to look again. Redis may object.
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

-- How long to wait for the head, the lock being free for it; 0 if it is gone.
-- Where threads of Redisson's wait, too, one of mortise's that does not listen is
-- not waited for: there may be nobody who looks later.
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
    -- Redisson's waiters drop even themselves when their deadline has passed.
    if late == '!' then postpone(head, now + ALIVE) end
    redis.call('hset', signs, 'told', string.format('%.0f %.0f', from, now) .. late .. head)
    redis.call('pexpire', signs, KEPT)
    wake(head, own)
    at = now
  end
  return (since or at) + GRACE - now
end

-- The head of the queue, after those who are gone were dropped; how long to wait
-- until it is worth looking again (0: not known); and how many waiters of another
-- lock stand before it. The one who asks is alive.
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
        -- Without a deadline, Redisson would wait for it for ever.
        postpone(first, now + (alive and not own and step or ALIVE))
        return first, 0, at
      end
      dead = true
    end
    if dead then
      drop(first, own)
      gone = gone + 1
    end
  end
  return redis.call('lindex', queue, at), gone == SLICE and 1 or GRACE, at
end

-- Takes a waiter out of the queue that stands behind so many. Redis may object.
local function take(waiter, at)
  local left = at == 0 and redis.pcall('lpop', queue) or redis.pcall('lrem', queue, 1, waiter)
  return type(left) == 'table' and left or nil
end

-- Takes a waiter out of the queue, wherever it stands. In one that is too long to
-- be searched it goes when it comes to the head: its time is over. Returns how
-- many were searched at most.
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
