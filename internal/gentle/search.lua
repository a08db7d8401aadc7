-- Lists keys that may be locks, a page of SCAN at a time. It changes nothing.
--
-- KEYS     any key of the server, which is not used, or none
-- ARGV[1]  the cursor
-- ARGV[2]  the pattern
-- ARGV[3]  how many keys to look at, about
--
-- {cursor, key, ...}  hashes that look like a lock: the caller looks closer
local page = redis.pcall('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3], 'type', 'hash')
local typed = not page.err
if not typed then page = redis.call('scan', ARGV[1], 'match', ARGV[2], 'count', ARGV[3]) end
local reply = {page[1]}
local modes = {read = true, write = true, election = true}
local id = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:'

local function lock(key)
  if not typed and redis.pcall('type', key).ok ~= 'hash' then return false end
  local size = redis.pcall('hlen', key)
  if type(size) ~= 'number' or size == 0 then return false end -- it is gone, or not to be read
  if size == 1 then return string.find(redis.call('hkeys', key)[1], id) end
  local long = redis.call('hstrlen', key, 'mode')
  if long > 0 then return long <= 8 and modes[redis.call('hget', key, 'mode')] end
  if size % 3 ~= 0 or size > 300 then return false end
  for _, field in ipairs(redis.call('hkeys', key)) do
    if string.sub(field, -11) == ':lock_count' then return true end
  end
  return false
end

for _, key in ipairs(page[2]) do
  if lock(key) then table.insert(reply, key) end
end
return reply
