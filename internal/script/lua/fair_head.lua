-- The part of the scripts of the fair lock that decides which waiter is next. It is one function
-- around the others, because every run creates its functions anew, and most runs need none of these.
local step = tonumber(ARGV[4])

local function mine(waiter) return redis.call('hexists', ours, waiter) == 1 end

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

-- Whether a waiter shows life; nil if that cannot be known. asked is when it last asked, if
-- it is ours.
local function lives(waiter, asked)
  if not asked then return listens(waiter) end
  local till = tonumber(redis.call('hget', signs, client(waiter)) or '') or 0
  return till > now or asked > -till and now - asked < ALIVE
end

-- Drops a waiter near the head of the queue. A client of ours that let the lock pass has
-- to show life again before the scripts wait for other waiters of its own.
local function drop(waiter, own)
  redis.call('lrem', queue, 1, waiter)
  redis.call('zrem', deadlines, waiter)
  redis.call('hdel', signs, '?' .. waiter)
  if own then
    redis.call('hdel', ours, waiter)
    if redis.call('hset', signs, client(waiter), -now) == 1 then redis.call('pexpire', signs, KEPT) end
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

-- Checks which of the first waiters listen, so that the dead are known by the time they are
-- heads. For a client of ours, its first waiter is enough. If none of Redisson's threads listens, unless that is
-- sure, they have one reason for it, such as a broken network, and nothing is known about them.
local function note(front, sure)
  local seen, silent, listening = {}, {}, sure
  for i = 1, math.min(#front, FRONT) do
    local waiter = front[i]
    local own = mine(waiter)
    local excused = own and seen[client(waiter)] or not own and not foreign(waiter)
    if own then seen[client(waiter)] = true end
    if not excused then
      local heard = listens(waiter, own)
      if heard then redis.call('hdel', signs, '?' .. waiter) elseif heard == false then silent[#silent + 1] = waiter end
      listening = listening or heard and not own
    end
  end
  for _, waiter in ipairs(listening and silent or {}) do suspect(waiter) end
  redis.call('hset', signs, 'noted', now)
end

-- When that was checked last.
local function noted() return tonumber(redis.call('hget', signs, 'noted') or '') or 0 end

-- Sets a waiter's deadline. The key may have gone with its last one.
local function postpone(waiter, deadline)
  redis.call('zadd', deadlines, string.format('%.0f', deadline), waiter)
  redis.call('pexpire', deadlines, DAY)
end

-- Wakes a waiter. Redis may refuse.
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
local function patience(head, asked, over)
  if asked and not lives(head, asked) then return 0 end
  local since = silence(head)
  if listens(head, asked) == false then
    if over and not asked or since and now - since >= GRACE then return 0 end
    if asked then
      local _, others = count()
      if now - asked >= GRACE and others > 0 then return 0 end
    end
    suspect(head)
    -- Those behind it may have died with it, and perhaps no client looks at them: each would take its own time. If the
    -- last one listens, so can they.
    if now - noted() >= GRACE / 2 then
      local front = redis.call('lrange', queue, 0, FRONT - 1)
      if #front == FRONT then front[FRONT] = redis.call('lindex', queue, -1) end
      note(front)
    end
  else
    since = nil
  end
  local from, at, late, who = string.match(redis.call('hget', signs, 'told') or '', '^(%d+) (%d+)([ !])(.*)$')
  from, at = tonumber(from), tonumber(at)
  if who ~= head or now - at > STALE then from, at = now, nil end
  if now - from >= ALIVE then return 0 end
  if not at or now - at >= GRACE then
    if at and late == '!' then return 0 end
    late = over and not asked and '!' or ' '
    -- A Redisson waiter whose deadline has passed drops even itself.
    if late == '!' then postpone(head, now + ALIVE) end
    redis.call('hset', signs, 'told', string.format('%.0f %.0f', from, now) .. late .. head)
    redis.call('pexpire', signs, KEPT)
    wake(head, asked)
    at = now
  end
  return (since or at) + GRACE - now
end

-- Drops dead heads. Returns the head of the queue, in how many ms another look is worth
-- while (0: not known), and how many waiters of another lock precede it. The asking waiter
-- counts as alive.
local function head(asking, free)
  local at, gone = 0, 0
  while at < SLICE and gone < SLICE do
    local first = redis.call('lindex', queue, at)
    if not first or first == asking then return first, 0, at end
    local asked = entry(first)
    local deadline = tonumber(redis.call('zscore', deadlines, first) or '')
    local over = deadline and deadline <= now
    local dead
    if not asked and not foreign(first) then
      -- Its own client puts off its deadline while it lives.
      dead = over
      if not deadline then postpone(first, now + ALIVE) end
      if not dead then at = at + 1 end
    elseif free then
      local left = patience(first, asked, over)
      if left > 0 then return first, left, at end
      dead = true
    elseif deadline and not over then
      return first, 0, at
    else
      local alive = lives(first, asked)
      if alive or not deadline then
        -- Without a deadline, Redisson would wait for it forever.
        postpone(first, now + (alive and not asked and step or ALIVE))
        return first, 0, at
      end
      dead = true
    end
    if dead then
      drop(first, asked)
      gone = gone + 1
      passed = passed + 1
    end
  end
  return redis.call('lindex', queue, at), gone == SLICE and 1 or GRACE, at
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

return head, leave, mine, note, noted
