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
local body = redis.call('hget', KEYS[1], 'body')
if not body or #body > tonumber(ARGV[1]) then return none end
local at, edition = redis.call('hget', KEYS[1], 'at'), redis.call('hget', KEYS[1], 'edition')
return {now, body, string.sub(at or '', 1, 32), string.sub(edition or '', 1, 32)}
