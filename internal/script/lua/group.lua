-- What the scripts of a lock group share. A group is one hash, its locks are fields. A
-- field f that is held has three entries:
--
--   f                      -> owner
--   f:<owner>:expire_time  -> the end of the lease, in ms since 1970
--   f:<owner>:lock_count   -> the hold count
--
-- A field whose lease has ended keeps its owner until another owner takes it. The key
-- outlasts the longest lease by LINGER. Redisson reads the clock of each client; these
-- scripts read that of the server.
local LINGER = 100 -- ms; see below
local MANY = 3000 -- the entries of a thousand fields: a limit of what is read at once
local LATE = 60000 -- for how long, in ms, an ended lease can still be renewed if nobody took the field

-- Why LINGER: a waiter for a field asks at the instant at which its lease ends. Redisson
-- then takes the field, and sets no TTL on a key whose TTL is 0 ms, but which still
-- exists. A key that ends with its longest lease would be in that state just then: it
-- would disappear with the new holder in it, and the next owner would acquire the field
-- as well.

local function entry(field, owner, what) return field .. ':' .. owner .. ':' .. what end

local function clock()
  local t = redis.call('time')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- ends returns the end of owner's lease on field: 0 if it is unreadable, and at most the
-- year 2255.
local function ends(key, field, owner)
  local at = tonumber(redis.call('hget', key, entry(field, owner, 'expire_time')) or '') or 0
  if not (at > 0) then return 0 end
  return math.min(at, 9e12)
end

local function ms(n) return string.format('%.0f', n) end

-- other reports whether the key, which has so many entries, is not a group: a read/write
-- lock has a mode, and a plain lock has one entry. A group has at least two.
local function other(key, size) return size == 1 or redis.call('hexists', key, 'mode') == 1 end

-- last makes the key outlast a lease. A key without TTL was left by another program: it
-- gets one that suits all leases in it, unless there are too many to read.
local function last(key, lease, now)
  local ttl = redis.call('pttl', key)
  if ttl >= lease + LINGER then return end
  if ttl == -1 then
    if redis.call('hlen', key) > MANY then return end
    local all = redis.call('hgetall', key)
    for i = 1, #all, 2 do
      if string.find(all[i], ':expire_time', 1, true) then
        lease = math.max(lease, math.min(tonumber(all[i + 1]) or 0, 9e12) - now)
      end
    end
  end
  redis.call('pexpire', key, ms(lease + LINGER))
end

-- mine reports whether owner holds all fields.
local function mine(key, owner, fields)
  local holders = redis.call('hmget', key, unpack(fields))
  for i = 1, #fields do
    if holders[i] ~= owner then return false end
  end
  return true
end

-- unbound lets the following commands write when Redis is out of memory. Redis refuses
-- only the first write of a script for that, and never a command that removes something.
-- This one removes nothing.
local function unbound(key) redis.call('hdel', key, '') end

-- sweep removes what dead owners left behind: the entries for fields that others have
-- taken since, and those of leases that ended long ago. It reads only some entries, of a
-- large hash different ones each time. It ignores what Redis does not allow.
local function sweep(key, now, size)
  local some = redis.pcall('hscan', key, size > 60 and ms(now) or '0', 'count', 60)
  local entries = some[2] or {}
  for i = 1, #entries, 2 do
    local field, owner = string.match(entries[i], '^([^:]*):(.*):expire_time$')
    local over = field and now - (tonumber(entries[i + 1]) or now + 1) or -1
    if over >= 0 then
      local left = {entry(field, owner, 'expire_time'), entry(field, owner, 'lock_count')}
      local foreign = redis.call('hget', key, field) ~= owner
      if not foreign and over > LATE then left[3] = field end
      if foreign or left[3] then redis.pcall('hdel', key, unpack(left)) end
    end
  end
end
