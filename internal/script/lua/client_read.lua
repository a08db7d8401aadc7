-- Reads the record of a client, without changing it.
--
-- KEYS[1]  the record: hash {body, at, edition, ask:<lease> ...}
-- ARGV[1]  how many bytes the body may have to be read
--
-- {now, body, at, edition, lease, text, ...}  the server's time in ms; the rest is '' if there is
--                                             no record; each lease that the client is asked to
--                                             release, with the text of the request
local clock = redis.call('time')
local now = string.format('%.0f', clock[1] * 1000 + math.floor(clock[2] / 1000))
local none = {now, '', '', ''}
if redis.call('type', KEYS[1]).ok ~= 'hash' then return none end

-- A field; '' if it is longer than most.
local function field(name, most)
  if redis.call('hstrlen', KEYS[1], name) > most then return '' end
  return redis.call('hget', KEYS[1], name) or ''
end

local body = field('body', tonumber(ARGV[1]))
if body == '' then return none end
local reply = {now, body, field('at', 32), field('edition', 32)}
-- A user without the rights to list the fields does not see the requests.
local size = redis.pcall('hlen', KEYS[1])
if type(size) == 'table' or size == 3 or size > 1000 then return reply end
local names = redis.pcall('hkeys', KEYS[1])
if names.err then return reply end
for _, name in ipairs(names) do
  if #reply < 64 and #name <= 300 and string.sub(name, 1, 4) == 'ask:' then
    table.insert(reply, string.sub(name, 5))
    table.insert(reply, field(name, 4096))
  end
end
return reply
