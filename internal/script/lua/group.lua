-- What the scripts of a lock group share. A group is one hash, the locks in it
-- are fields. A field f that is held has three entries:
--
--   f                      -> owner
--   f:<owner>:expire_time  -> when the lease ends, in ms since 1970
--   f:<owner>:lock_count   -> how often it was taken
--
-- The owner of a field whose time is over has it until another one comes. The
-- TTL of the key is that of the longest lease. Redisson reads the clock of each
-- client; these scripts read that of the server.
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

-- other reports whether the key, which exists, is no group: a read/write lock
-- has a mode, and a plain lock has one entry. A group has two at least.
local function other(key)
  return redis.call('hexists', key, 'mode') == 1 or redis.call('hlen', key) == 1
end

-- last makes the key outlast a lease. A key without TTL is foreign work: it gets
-- one that suits all leases in it.
local function last(key, lease, now)
  local ttl = redis.call('pttl', key)
  if ttl >= lease then return end
  if ttl == -1 then
    local all = redis.call('hgetall', key)
    for i = 1, #all, 2 do
      if string.find(all[i], ':expire_time', 1, true) then
        lease = math.max(lease, math.min(tonumber(all[i + 1]) or 0, 9e12) - now)
      end
    end
  end
  redis.call('pexpire', key, ms(lease))
end

-- mine reports whether owner has all fields.
local function mine(key, owner, fields)
  local holders = redis.call('hmget', key, unpack(fields))
  for i = 1, #fields do
    if holders[i] ~= owner then return false end
  end
  return true
end

