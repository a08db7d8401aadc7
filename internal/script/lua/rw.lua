-- The first part of the scripts of the read/write lock: its data and its holders.
--
-- KEYS[1]  the lock: hash {'mode' -> read or write, reader -> count, writer -> count}
-- ARGV[1]  owner: a reader, or a writer, whose name ends with ':write'
-- ARGV[2]  the prefix of the names of the holds' keys
--
-- The lease of a writer is the TTL of the lock. Each hold of a reader has a key of its own,
-- <ARGV[2]>:<reader>:rwlock_timeout:<i> with i from 1 to its count, whose TTL is the lease of
-- that hold. A reader without such a key has no lease any more: Redisson sets the TTL of the
-- lock to the longest of them whenever a reader unlocks, and deletes the lock if there is
-- none. These scripts do the same, unless there are too many to look at: then the TTL stays.
--
-- Redisson 3.25 and 3.37, not 3.45, let these keys of a thread end while it holds the write side as well, and renew
-- only the TTL of the lock then, also once the thread only reads. So a thread of Redisson's without such a key may
-- still read: a writer waits for the TTL of the lock, as Redisson's own do.
local lock, owner, base = KEYS[1], ARGV[1], ARGV[2]

local MANY = 1000 -- a higher count is not believed; also the limit of fields and holds looked at
local HOLDS = 100 -- how many holds of a reader have keys; further holds last as long as these

local function hold(reader, i) return base .. ':' .. reader .. ':rwlock_timeout:' .. i end

local function writes(field) return string.sub(field, -6) == ':write' end

-- The mode, 'free' if there is no such key, or nil if it is not a read/write lock.
local function mode()
  local how = redis.call('hget', lock, 'mode')
  if how == 'read' or how == 'write' then return how end
  if not how and redis.call('exists', lock) == 0 then return 'free' end
end

-- The fields of the lock with their values, and whether these are all. If there are too many,
-- it returns some.
local function entries()
  if redis.call('hlen', lock) <= MANY then return redis.call('hgetall', lock), true end
  return redis.call('hscan', lock, '0', 'count', MANY)[2], false
end

-- The lease of a reader's longest hold in ms; 0 if all its holds have ended, -1 if that cannot
-- be told. Nil if there was too much to look at. A hold with less than one ms left has ended,
-- as for Redisson; its owner has stopped trusting it by then.
local budget = MANY
local function rest(reader, count)
  local holds, longest = tonumber(count), 0
  if not holds or holds > MANY then return -1 end
  for i = 1, holds do
    if budget == 0 then return nil end
    budget = budget - 1
    local left = redis.call('pttl', hold(reader, i))
    if left == -1 then return -1 end
    longest = math.max(longest, left)
  end
  return longest
end

-- The writer among the fields of the lock, and its count.
local function writer(fields)
  for i = 1, #fields, 2 do
    if writes(fields[i]) then return fields[i], fields[i + 1] end
  end
end

-- The reader with the longest lease among the fields of the lock, except one: its name, its
-- count, and its lease as rest returns it; nil and 0 if none has a lease left. Then whether
-- there was too much to look at, and the readers that were seen to have no lease.
local function reader(fields, but)
  local name, count, longest, dead = nil, nil, 0, {}
  for i = 1, #fields, 2 do
    local field = fields[i]
    if field ~= 'mode' and field ~= but and not writes(field) then
      local left = rest(field, fields[i + 1])
      if not left then return name, count, longest, true, dead end
      if left == -1 then return field, fields[i + 1], -1, false, dead end
      if left > longest then name, count, longest = field, fields[i + 1], left end
      if left == 0 then dead[#dead + 1] = field end
    end
  end
  return name, count, longest, false, dead
end

-- Extends a key's TTL to at least so many ms.
local function prolong(key, lease)
  if redis.call('pttl', key) < lease then redis.call('pexpire', key, lease) end
end

-- Deletes the holds of a reader from the n-th on. Holds beyond the limit end by their TTL.
local function discard(name, n)
  local last = n + MANY
  while n < last and redis.call('del', hold(name, n)) == 1 do n = n + 1 end
end

-- Lets the following commands write when Redis is out of memory. Redis refuses only the first
-- write of a script for that, and never a command that removes something. This one removes
-- nothing.
local function unbound() redis.call('hdel', lock, '') end

-- Announces, by the commands in ARGV from the n-th on. Returns Redis' error, if there is one,
-- and whether threads of Redisson's have the first chance. It comes last in
-- a script and is protected: if it failed the script, the caller would not learn of the
-- release.
local function announce(message, channel, n)
  local objection
  local theirs, r, g = redissons(channel, ARGV[#ARGV], ARGV[#ARGV])
  local times = 0
  if theirs then message, times = left(r, g, message, string.match(owner, '^[^:]*:(%d+)')) end
  for i = n, #ARGV do
    local sent = redis.pcall(ARGV[i], channel, message)
    if type(sent) == 'table' then objection = sent.err end
  end
  return objection, times > 0
end
