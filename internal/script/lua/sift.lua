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
local SOME = 32 -- fields to read of a larger one: a chance of 1 in 400,000 to meet no count of a GroupLock
local LONG = 65536 -- bytes of their names, after which no more are read
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

-- Whether fields of a hash look like those of a GroupLock.
local function group(fields)
  for _, field in ipairs(fields or {}) do
    if string.sub(field, -11) == ':lock_count' then return true end
  end
  return false
end

local function hash(key)
  local size = read('hlen', key) or 0
  local cost = size <= each and size or SOME
  if size == 0 or most < cost then return size ~= 0 end
  if size == 1 then
    local fields = read('hkeys', key) or {}
    return fields[1] and string.find(fields[1], id)
  end
  local long = read('hstrlen', key, 'mode') or 0
  if long > 0 then return long <= 8 and modes[read('hget', key, 'mode') or ''] end
  if size % 3 ~= 0 then return false end -- a GroupLock has three fields for each value
  most = most - cost
  for _, few in ipairs(size > SOME and {4, SOME} or {}) do
    local long = 0
    for _, field in ipairs(redis.pcall('hrandfield', key, few)) do long = long + #field end
    if long > LONG then return true end
  end
  return group(cost == size and read('hkeys', key) or cost ~= size and read('hrandfield', key, SOME))
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
