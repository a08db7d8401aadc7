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
local body = redis.call('hget', KEYS[1], 'body')
if not body or #body > tonumber(ARGV[1]) then return none end
local at, edition = redis.call('hget', KEYS[1], 'at'), redis.call('hget', KEYS[1], 'edition')
local reply = {now, body, string.sub(at or '', 1, 32), string.sub(edition or '', 1, 32)}
if redis.call('hlen', KEYS[1]) == 3 or redis.call('hlen', KEYS[1]) > 1000 then return reply end
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if #reply < 64 and #field <= 300 and string.sub(field, 1, 4) == 'ask:' then
    table.insert(reply, string.sub(field, 5))
    table.insert(reply, string.sub(redis.call('hget', KEYS[1], field), 1, 4096))
  end
end
return reply
