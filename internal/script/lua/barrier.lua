-- The first part of the scripts of barriers of both kinds.
--
-- KEYS[1]  the barrier: hash {'mode' -> its kind, 'parties' -> for how many it
--          is, 'next' -> before which no lease of a party is over, ...,
--          party -> its entry}. The names of parties have a colon in them. It
--          never exists without a TTL, and lasts as long as the longest lease.
-- KEYS[2]  what has become of the party, if it is over for it: a string, kept
--          for a lease and for a minute at least, so that whoever asks again
--          gets the same answer, and a late copy of a call finds that it is
--          late. Those of all parties are <ARGV[2]>:<party>.
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

local MOST = 1010 -- fields, for a thousand parties: nothing with more of them is a barrier

-- Whether the barrier is there: true, false, or nil if the key is another kind.
local function stands(kind)
  local mode = redis.pcall('hget', barrier, 'mode')
  if type(mode) == 'table' then
    if string.find(mode.err, 'WRONGTYPE') then return end
    redis.call('hget', barrier, 'mode') -- the error again, to end with
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

-- Whether some lease may be over.
local function due()
  local till = tonumber(redis.call('hget', barrier, 'next') or '')
  return not till or till <= now
end

-- Notes what has become of a party.
local function tell(who, what) redis.call('set', ARGV[2] .. ':' .. who, what, 'px', math.max(lease, 60000)) end

-- Makes the barrier last for a lease at least. Returns an error, if Redis does
-- not allow it and there would be no TTL at all: then the barrier is gone.
local function prolong()
  local ttl = redis.call('pttl', barrier)
  if ttl >= lease then return end
  local limited = redis.pcall('pexpire', barrier, ARGV[3])
  if limited == 1 then return end
  if ttl < 0 then redis.call('del', barrier) end
  return limited
end

-- Wakes all parties. It is the last thing that a script does, and protected:
-- were it to fail the script, the change would be hidden. Parties that are not
-- told look for themselves.
local function announce()
  for command in string.gmatch(ARGV[5], '%a+') do redis.pcall(command, ARGV[4], '0') end
end
