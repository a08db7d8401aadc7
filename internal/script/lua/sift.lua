-- Says which of some keys may be held, so that a caller has to look closer at these only. It
-- changes nothing.
--
-- KEYS  one of the keys, which says on which server to run, or none
-- ARGV  a key, the key of the permits of that name; the next two; ...
--
-- {place, ...}  the places of the keys, from 1 on, that a caller has to look at: hashes that look
--               like locks or terms, numbers with permits, and what cannot be told here, for lack
--               of a right, because a slot is on its way, or because there is too much to read
local modes = {read = true, write = true, election = true}
local id = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:.'
local most, each = 10000, 1000 -- fields to read in all, and of one hash
local untold = false

-- Calls a command that only reads. Where it fails, this script cannot tell.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    untold = true
    return nil
  end
  return reply
end

-- Whether a hash of this size may be of a GroupLock: three fields for each value.
local function group(key, size)
  if size % 3 ~= 0 or size > each then return false end
  most = most - size
  for _, field in ipairs(read('hkeys', key) or {}) do
    if string.sub(field, -11) == ':lock_count' then return true end
  end
  return false
end

local function hash(key)
  local size = read('hlen', key) or 0
  if size == 0 or most < size and size <= each then return size ~= 0 end
  if size == 1 then
    local fields = read('hkeys', key) or {}
    return fields[1] and string.find(fields[1], id)
  end
  local long = read('hstrlen', key, 'mode') or 0
  if long > 0 then return long <= 8 and modes[read('hget', key, 'mode') or ''] end
  return group(key, size)
end

local places = {}
for i = 1, #ARGV, 2 do
  untold = false
  local kind = read('type', ARGV[i])
  local may = false
  if kind and kind.ok == 'hash' then
    may = hash(ARGV[i])
  elseif kind and kind.ok == 'string' then
    local permits = read('type', ARGV[i + 1])
    may = permits and permits.ok == 'zset'
  end
  if may or untold then table.insert(places, (i + 1) / 2) end
end
return places
