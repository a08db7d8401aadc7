-- Reads the record of a client, without changing it.
--
-- KEYS[1]  the record: hash {body, at, edition, ask:<lease> ...}
-- ARGV[1]  how many bytes the body may have to be read
--
-- {now, body, at, edition}  the server's time in ms; the rest is '' if there is no record
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
return {now, body, field('at', 32), field('edition', 32)}
