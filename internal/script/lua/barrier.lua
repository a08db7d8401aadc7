-- The first part of the scripts of both kinds of barrier.
--
-- KEYS[1]  the barrier: hash {'mode' -> its kind, 'parties' -> its size, 'next' ->
--          no party's lease ends before this time, ..., party -> its entry}. The
--          name of a party contains a colon. The hash always has a TTL, and lasts
--          as long as the longest lease.
-- KEYS[2]  the party's outcome, once the barrier is over for it: a string, kept for
--          a lease and for a minute at least, so that a repeat gets the same answer
--          and a late copy of a call is recognized as late. The outcome of any party
--          is at <ARGV[2]>:<party>.
-- ARGV[1]  party
-- ARGV[2]  see above
-- ARGV[3]  lease in ms
-- ARGV[4]  channel
-- ARGV[5]  how to publish: publish, spublish, or both
--
-- Times are the server's, in ms since the epoch.
local barrier, party, lease = KEYS[1], ARGV[1], tonumber(ARGV[3])
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local MOST = 1010 -- fields, for a thousand parties: a hash with more of them is not a barrier

-- Whether the barrier exists: true, false, or nil if the key is of another kind.
local function stands(kind)
  local mode = redis.pcall('hget', barrier, 'mode')
  if type(mode) == 'table' then
    if string.find(mode.err, 'WRONGTYPE') then return end
    redis.call('hget', barrier, 'mode') -- fails the script with the same error
  end
  if mode == kind then
    if redis.call('hlen', barrier) <= MOST then return true end
    return
  end
  if not mode and redis.call('exists', barrier) == 0 then return false end
end

-- All parties and their entries: {party, entry, party, entry, ...}.
local function everybody()
  local fields, list = redis.call('hgetall', barrier), {}
  for i = 1, #fields, 2 do
    if string.find(fields[i], ':', 1, true) then
      list[#list + 1] = fields[i]
      list[#list + 1] = fields[i + 1]
    end
  end
  return list
end

-- Whether the lease of a party may have ended.
local function due()
  local till = tonumber(redis.call('hget', barrier, 'next') or '')
  return not till or till <= now
end

-- Records a party's outcome.
local function tell(who, what) redis.call('set', ARGV[2] .. ':' .. who, what, 'px', math.max(lease, 60000)) end

-- Extends the barrier's TTL to a lease at least. If Redis refuses and the key has no
-- TTL at all, the barrier is deleted. Returns the error, if there is one.
local function prolong()
  local ttl = redis.call('pttl', barrier)
  if ttl >= lease then return end
  local limited = redis.pcall('pexpire', barrier, ARGV[3])
  if limited == 1 then return end
  if ttl < 0 then redis.call('del', barrier) end
  return limited
end

-- Wakes all parties. It comes last in a script and is protected: if it failed the
-- script, the caller would not learn of the change. A party that misses the
-- notification polls.
local function announce()
  for command in string.gmatch(ARGV[5], '%a+') do redis.pcall(command, ARGV[4], '0') end
end
