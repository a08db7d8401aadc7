-- Shows that a client is alive, keeps its waiters in the queue, and checks whether the
-- head of the queue is alive.
--
-- KEYS, ARGV[1..6]  as in fair.lua
-- ARGV[7]   client
-- ARGV[8..] some of its waiters, in the order of the queue, the first one first; each is
--           followed by its nonce and by how far ahead its deadline must be, in ms
--
-- {again, mixed, passed, holder, count, left, waiter, ...}
--   again  in how many ms something may change without a message; or 0
--   mixed  1 if a thread of Redisson's holds the lock or waits for it
--   passed how many dead waiters this call has dropped
--   holder of the lock, cut to 200 bytes, its count, and what is left of its lease in ms; '' if
--          nobody has the lock, or several
--   then the waiters that should ask for the lock: it is free for them, or they are not in
--   the queue any more
local READ = 100 -- how many waiters of the queue are read
local head, _, _, note, noted = judge()

-- Continues the search of a key for remains of the dead, one page at a time.
local function sweep(key, mark, left)
  local at = redis.call('hget', signs, mark) or '0'
  local page = redis.pcall('hscan', key, at, 'count', READ)
  if page.err then return end
  if page[1] ~= at then redis.call('hset', signs, mark, page[1]) end
  for i = 1, math.min(#page[2], 4 * READ), 2 do
    if left(page[2][i], page[2][i + 1]) then redis.call('hdel', key, page[2][i]) end
  end
end

redis.call('hset', signs, ARGV[7], now + ALIVE)
redis.call('pexpire', signs, KEPT)
redis.call('pexpire', ours, KEPT)
redis.call('pexpire', queue, DAY)
redis.call('pexpire', deadlines, DAY)
local reply = {0, 0, 0, '', 0, 0}
local front = redis.call('lrange', queue, 0, READ - 1)
local waiting, others = count()
local place = {} -- index in ARGV, if the deadline is still to be set
for i = 8, #ARGV, 3 do place[ARGV[i]] = i end

-- Sets the deadline of a waiter of this client. Before is the number of Redisson's waiters
-- ahead of it, last the last of their deadlines. Returns its deadline.
local function advance(waiter, deadline, before, last)
  local ahead = now + ARGV[place[waiter] + 2]
  local want = ahead + before * ARGV[4]
  if before > 0 and last <= FAR then want = math.max(want, last + ahead - now) end
  -- Now and then is enough, unless little is left of the wait: then what is wanted stays where it
  -- is, and the deadline would pass before it.
  if deadline <= want and deadline > want - ALIVE / 4 and deadline > now + ALIVE / 2 then return deadline end
  redis.call('zadd', deadlines, string.format('%.0f', want), waiter)
  return want
end

-- How many of Redisson's waiters may be ahead of one that is not among the first: it left room for all of them when it
-- queued, and that shrinks with their number.
local function ahead(waiter, deadline)
  local room = deadline - now - ARGV[place[waiter] + 2]
  return math.max(math.min(math.ceil(room / ARGV[4]), others), 0)
end

local present = {}
local before, last, moved, prior = 0, 0, 0, -math.huge
for _, waiter in ipairs(front) do
  present[waiter] = true
  if others > 0 then
    local deadline = tonumber(redis.call('zscore', deadlines, waiter) or '')
    if deadline and deadline > FAR then deadline = nil end
    local till = deadline
    if foreign(waiter) then
      -- Its deadline builds on that of the waiter before it. It is put off with that, but never brought forward: what was
      -- not built on what that waiter had for a while would end too soon. One that was not among the first has been left behind.
      if deadline then
        till = deadline + moved
        if till < prior then till = prior + ARGV[4] end
        if till > deadline then redis.call('zadd', deadlines, string.format('%.0f', till), waiter) end
      end
      before, last = before + 1, math.max(last, till or 0)
    elseif deadline and place[waiter] then
      till = advance(waiter, deadline, before, last)
      redis.call('hsetnx', ours, waiter, string.format('%.0f ', now) .. ARGV[place[waiter] + 1])
      place[waiter] = nil
    end
    moved = till and till > deadline and deadline > 0 and till - deadline or 0
    prior = till or prior
  end
end
for i = 8, #ARGV, 3 do
  local waiter = ARGV[i]
  if place[waiter] then
    local deadline = tonumber(redis.call('zscore', deadlines, waiter) or '')
    if not deadline or waiting <= READ and not present[waiter] then
      if deadline and redis.call('hexists', lock, waiter) == 0 then redis.call('zrem', deadlines, waiter) end
      reply[#reply + 1] = waiter
    else
      -- The room is also for what is left of the lease: it is not brought forward, because the last of their deadlines is not known.
      advance(waiter, deadline, ahead(waiter, deadline), deadline - ARGV[i + 2])
      redis.call('hsetnx', ours, waiter, string.format('%.0f ', now) .. ARGV[i + 1])
    end
  end
end
if now - noted() >= GRACE / 2 then
  note(front, true)
  sweep(signs, 'scan5', function(name, value)
    if string.sub(name, 1, 1) == '?' then return now - (tonumber(string.match(value, '^%d+ (%d+)$') or '') or 0) > STALE end
    return #name == 36 and math.abs(tonumber(value) or 0) + ALIVE < now
  end)
  sweep(ours, 'scan4', function(waiter) return not redis.call('zscore', deadlines, waiter) end)
end
local free = redis.call('exists', lock) == 0
local first, again = head(ARGV[8] or '', free)
reply[1] = again
reply[3] = passed
if free then
  if first and first == ARGV[8] then reply[#reply + 1] = first end
else
  redis.call('hdel', signs, 'told') -- belongs to an earlier release
  local left = redis.call('pttl', lock)
  if left >= 0 and again == 0 then reply[1] = left + 1 end
  if redis.call('hlen', lock) == 1 then
    local holder = redis.call('hgetall', lock)
    if foreign(holder[1]) then reply[2] = 1 end
    reply[4], reply[5], reply[6] = string.sub(holder[1], 1, 200), math.max(tonumber(holder[2]) or 0, 0), left
  end
end
if others > 0 then reply[2] = 1 end
return reply
