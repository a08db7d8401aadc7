-- Reads what a name and its companion keys contain, without changing it.
--
-- KEYS[1]  any key
-- KEYS[2]  the queue of a fair lock of that name        } these may be left out,
-- KEYS[3]  its deadlines                                } all together
-- KEYS[4]  the counter of fencing tokens of that name   }
-- KEYS[5]  the expiries of the permits of that name     }
-- ARGV[1]  how many fields, waiters or permits to list at most
-- ARGV[2]  how many bytes the fields and values of a hash may have in total to be listed;
--          without the right to read their sizes all are listed
--
-- {type, ttl, size, field or text list, token, queue, permits}
--   type     as TYPE returns it, 'none' if there is no such key
--   ttl      in ms, -1 if the key has none, -2 if there is no such key
--   size     the number of a hash's fields, or of a semaphore's permits; 0 for other types
--   list     a hash's fields and values; if they are too many or too long, the mode and some
--            others of them. The beginning of a string
--   token    the newest fencing token; '' if there is none
--   queue    waiter, ms until its deadline ('' if it has none), ...
--   permits  id, ms until it expires, ...
-- Waiters and ids are cut to 200 bytes. Of a hash no field is cut: to release a
-- lock by force, a caller has to name the holder.
local limit = tonumber(ARGV[1])
local kind = redis.call('type', KEYS[1]).ok
local reply = {kind, redis.call('pttl', KEYS[1]), 0, {}, '', {}, {}}

-- The length of a field's value, 0 without the right to read it.
local function length(field)
  local size = redis.pcall('hstrlen', KEYS[1], field)
  return type(size) == 'number' and size or 0
end

-- The names of so many fields: fewer, and true, if they are long.
local function names(count)
  for _, few in ipairs({4, 30, count}) do
    few = math.min(few, count)
    local list = redis.pcall('hrandfield', KEYS[1], few)
    if list.err then -- for lack of the right, or in a Redis before 6.2
      local page = redis.pcall('hscan', KEYS[1], '0', 'count', few)
      list = {}
      for i = 1, page.err and 0 or math.min(#page[2], 2 * few), 2 do table.insert(list, page[2][i]) end
    end
    local size = 0
    for _, field in ipairs(list) do size = size + #field end
    if size > tonumber(ARGV[2]) or few == count then return list, size > tonumber(ARGV[2]) end
  end
end
local FEW = 30 -- names to read before many

-- Whether the fields and values of the hash are short enough to be listed.
local function short(size)
  if size > FEW then
    local _, long = names(FEW)
    if long then return false end
  end
  local fields = redis.pcall('hkeys', KEYS[1])
  if fields.err then return true end
  local rest = tonumber(ARGV[2])
  for _, field in ipairs(fields) do
    rest = rest - #field - length(field)
    if rest < 0 then return false end
  end
  return true
end

-- Lists the mode, and others of the hash's fields while they are short enough.
local function some(list)
  local rest = tonumber(ARGV[2])
  local function add(field)
    local size = #field + length(field)
    local value = size <= rest and redis.pcall('hget', KEYS[1], field)
    if type(value) ~= 'string' then return 0 end
    rest = rest - size
    table.insert(list, field)
    table.insert(list, value)
    return 1
  end
  add('mode')
  local count = 0
  for _, field in ipairs((names(limit + 1))) do -- the mode may be one of them
    if field ~= 'mode' and count < limit then count = count + add(field) end
  end
end

if kind == 'hash' then
  reply[3] = redis.call('hlen', KEYS[1])
  if reply[3] <= limit and short(reply[3]) then
    reply[4] = redis.call('hgetall', KEYS[1])
  else
    some(reply[4])
  end
elseif kind == 'string' then
  reply[4] = {redis.call('getrange', KEYS[1], 0, 31)}
end
if #KEYS == 1 or kind ~= 'hash' and kind ~= 'string' and kind ~= 'none' then return reply end

local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function left(at)
  at = tonumber(at or '')
  return at and string.format('%.0f', at - now) or ''
end
local function is(key, type) return redis.call('type', key).ok == type end

if is(KEYS[4], 'string') then reply[5] = redis.call('getrange', KEYS[4], 0, 31) end
if kind ~= 'string' and is(KEYS[2], 'list') then
  local timed = is(KEYS[3], 'zset')
  for _, waiter in ipairs(redis.call('lrange', KEYS[2], 0, limit - 1)) do
    table.insert(reply[6], string.sub(waiter, 1, 200))
    table.insert(reply[6], left(timed and redis.call('zscore', KEYS[3], waiter)))
  end
end
if kind == 'string' and is(KEYS[5], 'zset') then
  local permits = redis.call('zrange', KEYS[5], 0, limit - 1, 'withscores')
  local size = #permits == 2 * limit and redis.pcall('zcard', KEYS[5])
  reply[3] = type(size) == 'number' and size or #permits / 2
  for i = 1, #permits, 2 do
    table.insert(reply[7], string.sub(permits[i], 1, 200))
    table.insert(reply[7], left(permits[i + 1]))
  end
end
return reply
