-- Looks at a page of keys for what may be wrong, and changes nothing.
--
-- KEYS     any key of the server, which is not used, or none
-- ARGV[1]  the cursor
-- ARGV[2]  the pattern
-- ARGV[3]  how many keys to look at, about
--
-- {cursor, what .. key, ...}  the caller looks closer. What is
--   'h'  a hash without TTL that may be a lock
--   'q'  a queue of a fair lock
--   'p'  the ends of a semaphore's permits
--   't'  a counter of tokens, or a fence: with the seconds since its last use, and a space
--   'u'  the same, but the time is not known
--
-- TYPE, PTTL and OBJECT do not count as a use of a key; nothing else is asked of most keys.
local page = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3])
local reply = {page[1]}

local function starts(text, with) return string.sub(text, 1, #with) == with end

local function is(key, type)
  local kind = redis.pcall('type', key)
  return kind.ok == type
end

local function what(key)
  if starts(key, 'redisson_lock_queue:') then return is(key, 'list') and 'q' end
  if starts(key, 'redisson_lock_token:') or starts(key, 'mortise:fence:') then
    local idle = redis.pcall('object', 'idletime', key)
    if type(idle) == 'number' then return 't' .. string.format('%d ', idle) end
    return 'u'
  end
  if starts(key, 'redisson_') or starts(key, 'mortise:') then return false end
  if string.sub(key, -8) == ':timeout' and string.find(key, '{', 1, true) and is(key, 'zset') then return 'p' end
  local left = redis.pcall('pttl', key)
  if left ~= -1 or not is(key, 'hash') then return false end
  local size = redis.pcall('hlen', key)
  if type(size) ~= 'number' or size < 1 or size > 300 then return false end
  if size == 1 then
    local field = redis.pcall('hkeys', key)[1]
    return field and string.find(field, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%d+:?%a*$') and 'h'
  end
  local mode = redis.pcall('hget', key, 'mode')
  if mode == 'read' or mode == 'write' or mode == 'election' then return 'h' end
  if size % 3 ~= 0 then return false end
  for _, field in ipairs(redis.pcall('hkeys', key)) do
    if string.sub(field, -11) == ':lock_count' then return 'h' end
  end
  return false
end

for _, key in ipairs(page[2]) do
  local found = what(key)
  if found then table.insert(reply, found .. key) end
end
return reply
