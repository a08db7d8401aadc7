-- The first part of every script of the fair lock: who is next.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the queue: list of waiters, the next one first       (Redisson's)
-- KEYS[3]  their deadlines: zset {waiter -> ms since the epoch}  (Redisson's)
-- KEYS[4]  those of them that are mortise's: set
-- KEYS[5]  signs of life: hash
--            client        -> alive until
--            '?' .. waiter -> seen without a subscriber since
--            '-' .. waiter -> the lock cannot be given to it; it asks for more
--            'noted'       -> when the latter were last looked at
--            'told'        -> who was last told that the lock is free, when, and
--                             with '!' that its deadline had passed by then
-- ARGV[1]  what the channel of a waiter begins with; the waiter follows
-- ARGV[2]  how to ask for subscribers: numsub, shardnumsub, both, or nothing
--          where the answer would not cover all servers
-- ARGV[3]  how to publish: publish, spublish, or both
-- ARGV[4]  by how much a deadline lies behind that of the one before, in ms
-- ARGV[5]  what the channels of mortise's clients begin with; a client follows.
--          They hear '<waiter> 1', the lock is the waiter's now, and '?<waiter>',
--          it is to look
-- ARGV[6]  how to publish there; nothing where each of mortise's waiters has a
--          channel of its own, too
--
-- Times are the server's. Redisson drops a head whose deadline has passed, and
-- nothing else. Here a head whose deadline has passed stays as long as it shows
-- life, and one that shows none while the lock is free for it goes after a
-- moment, whatever its deadline.
local lock, queue, deadlines, ours, signs = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local step = tonumber(ARGV[4])
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local GRACE = 1000   -- how long a head may be silent, or hesitate to take a lock that is free
local STALE = 5000   -- what was seen so long ago, and not since, counts no more
local ALIVE = 10000  -- how long a client's sign of life counts
local KEPT = 60000   -- how long the keys that are mortise's own outlast their last use
local DAY = 86400000 -- how long a queue that everybody forgot stays; Redisson keeps it for ever
local FRONT = 64     -- how many waiters are looked at before it is their turn

local GIVEN = 3000   -- for how long a lock is given; who gets it makes it last

local function client(waiter) return string.match(waiter, '^[^:]*') end

-- Whether a waiter is mortise's, and is told by its client's channel.
local function directed(waiter) return ARGV[6] ~= '' and redis.call('sismember', ours, waiter) == 1 end

-- Whether a holder is a thread of Redisson's: it tells each waiter by a channel of
-- the waiter's own.
local function foreign(holder) return string.sub(holder, 15, 15) ~= '8' end

-- Whether somebody is subscribed for a waiter; nil if that cannot be known.
local function listens(waiter)
  if directed(waiter) then
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
local function lives(waiter)
  if redis.call('sismember', ours, waiter) == 1 then
    local till = tonumber(redis.call('hget', signs, client(waiter)) or '')
    return till ~= nil and till > now
  end
  return listens(waiter)
end

-- Takes a waiter out of the queue. A client of ours that let the lock go by has
-- to show anew that it lives before others of its waiters are waited for.
local function drop(waiter)
  redis.call('lrem', queue, 1, waiter)
  redis.call('zrem', deadlines, waiter)
  redis.call('hdel', signs, '?' .. waiter, '-' .. waiter)
  if redis.call('srem', ours, waiter) == 1 then redis.call('hdel', signs, client(waiter)) end
end

-- Since when a waiter has been silent; nil if it was not seen so.
local function silence(waiter)
  local since = tonumber(redis.call('hget', signs, '?' .. waiter) or '')
  if not since or now - since <= STALE then return since end
  local noted = tonumber(redis.call('hget', signs, 'noted') or '')
  return noted and now - noted <= STALE and since or nil
end

-- Notes that a waiter does not listen.
local function suspect(waiter)
  if silence(waiter) then return end
  redis.call('hset', signs, '?' .. waiter, now)
  redis.call('pexpire', signs, KEPT)
end

-- Looks which of the first waiters listen, so that the dead are known when
-- their turn comes. Of a client of ours only the first waiter has to.
local function note()
  local silent, seen = {}, {}
  for _, waiter in ipairs(redis.call('lrange', queue, 0, FRONT - 1)) do
    local excused = false
    if redis.call('sismember', ours, waiter) == 1 then
      excused = seen[client(waiter)]
      seen[client(waiter)] = true
    end
    if not excused and listens(waiter) == false then
      suspect(waiter)
      silent['?' .. waiter] = true
    end
  end
  local all = redis.call('hgetall', signs)
  for i = 1, #all, 2 do
    local name, at = all[i], tonumber(all[i + 1])
    local suspicion = string.sub(name, 1, 1) == '?'
    if suspicion and not silent[name] or #name == 36 and not suspicion and at and at < now then
      redis.call('hdel', signs, name)
    end
  end
  redis.call('hset', signs, 'noted', now)
end

-- Tells a waiter to look again. Redis may object.
local objection
local function wake(waiter)
  if directed(waiter) then
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
local function patience(head, over)
  local mine = redis.call('sismember', ours, head) == 1
  if mine and not lives(head) then return 0 end
  local since = silence(head)
  if listens(head) == false then
    if over and not mine or since and now - since >= GRACE then return 0 end
    suspect(head)
  else
    since = nil
  end
  local at, late, who = string.match(redis.call('hget', signs, 'told') or '', '^(%d+)([ !])(.*)$')
  at = who == head and tonumber(at) or nil
  if not at or now - at >= GRACE then
    if at and late == '!' and now - at <= STALE then return 0 end
    late = over and not mine and '!' or ' '
    -- Redisson's waiters drop even themselves when their deadline has passed.
    if late == '!' then redis.call('zadd', deadlines, now + ALIVE, head) end
    redis.call('hset', signs, 'told', string.format('%.0f', now) .. late .. head)
    redis.call('pexpire', signs, KEPT)
    wake(head)
    at = now
  end
  return (since or at) + GRACE - now
end

-- The head of the queue, after those who are gone were dropped, and how long to
-- wait until it is worth looking again (0: not known). The one who asks is
-- alive.
local function head(asking, free)
  while true do
    local first = redis.call('lindex', queue, 0)
    if not first or first == asking then return first, 0 end
    local deadline = tonumber(redis.call('zscore', deadlines, first) or '')
    local over = deadline and deadline <= now
    if free then
      local left = patience(first, over)
      if left > 0 then return first, left end
      drop(first)
    elseif deadline and not over then
      return first, 0
    else
      local alive = lives(first)
      if alive or not deadline then
        -- Without a deadline, Redisson would wait for it for ever.
        redis.call('zadd', deadlines, now + (alive and step or ALIVE), first)
        return first, 0
      end
      drop(first)
    end
  end
end

-- Moves up the deadlines of waiters, or of all, as Redisson expects it when one
-- before them has left the queue. Where all are ours there is nobody to expect it.
local function advance(waiters)
  if redis.call('llen', queue) <= redis.call('scard', ours) then return end
  for _, waiter in ipairs(waiters or redis.call('zrange', deadlines, 0, -1)) do
    if redis.call('zscore', deadlines, waiter) then redis.call('zincrby', deadlines, -step, waiter) end
  end
end

-- The waiters behind one of them, if it is in the queue.
local function behind(waiter)
  local all, after = redis.call('lrange', queue, 0, -1), nil
  for _, other in ipairs(all) do
    if after then after[#after + 1] = other elseif other == waiter then after = {} end
  end
  return after or {}
end
