-- What the scripts of a lock group share. A group is one hash, the locks in it
-- are fields. A field f that is held has three entries:
--
--   f                      -> owner
--   f:<owner>:expire_time  -> when the lease ends, in ms since 1970
--   f:<owner>:lock_count   -> how often it was taken
--
-- The owner of a field whose time is over has it until another one comes. The
-- key outlasts the longest lease by LINGER. Redisson reads the clock of each
-- client; these scripts read that of the server.
local LINGER = 100 -- ms; see below
local MANY = 3000 -- the entries of a thousand fields: not more are read at once
local LATE = 60000 -- for how long, in ms, a lease that is over can still be renewed if nobody came

-- Why LINGER: whoever waits for a field asks at the instant at which its lease
-- ends. Redisson then takes it, and sets no TTL on a key whose TTL is 0 ms, but not
-- over. A key that ends with its longest lease would be in that state just then:
-- it would go with the new holder in it, and the next one would come in beside
-- that.

local function entry(field, owner, what) return field .. ':' .. owner .. ':' .. what end

local function clock()
  local t = redis.call('time')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- ends returns when the lease of owner on field ends: 0 if that is unreadable,
-- and the year 2255 if it is later.
local function ends(key, field, owner)
  local at = tonumber(redis.call('hget', key, entry(field, owner, 'expire_time')) or '') or 0
  if not (at > 0) then return 0 end
  return math.min(at, 9e12)
end

local function ms(n) return string.format('%.0f', n) end

-- other reports whether the key, which has so many entries, is no group: a
-- read/write lock has a mode, and a plain lock has one entry. A group has two at
-- least.
local function other(key, size) return size == 1 or redis.call('hexists', key, 'mode') == 1 end

-- last makes the key outlast a lease. A key without TTL is foreign work: it gets
-- one that suits all leases in it, unless there are too many to read.
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

-- mine reports whether owner has all fields.
local function mine(key, owner, fields)
  local holders = redis.call('hmget', key, unpack(fields))
  for i = 1, #fields do
    if holders[i] ~= owner then return false end
  end
  return true
end

-- unbound lets what follows be written without free memory. Redis refuses that
-- to a script only as its first writing, and a command that takes away is never
-- refused. This one takes nothing away.
local function unbound(key) redis.call('hdel', key, '') end

-- sweep takes away what was left behind: by dead owners of fields that others
-- took since, and by those that are dead for longer. It looks at some entries
-- only, of many at others each time. What it may not do, it leaves.
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
