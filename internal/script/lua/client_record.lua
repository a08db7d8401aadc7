-- Writes, renews or deletes the record of a client.
--
-- KEYS[1]  the record: hash {body, at, edition, ask:<lease> ...}
-- ARGV[1]  the body; '' to delete the record
-- ARGV[2]  its edition: a higher one is newer
-- ARGV[3]  how long it lasts, in ms
-- ARGV...  the leases whose requests the client has seen
--
-- {now, lease, text, ...}  the server's time in ms, and each other lease that the client is
--                          asked to release, with the text of the request
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply = {string.format('%.0f', now)}
local kind = redis.call('type', KEYS[1]).ok
if kind ~= 'hash' and kind ~= 'none' or kind == 'hash' and redis.call('hlen', KEYS[1]) > 1000 then
  redis.call('del', KEYS[1]) -- not ours
end
if ARGV[1] == '' then
  redis.call('del', KEYS[1])
  return reply
end
local last = tonumber(redis.call('hget', KEYS[1], 'edition') or '')
local late = last and last > tonumber(ARGV[2]) and last < tonumber(ARGV[2]) + 1000000
for i = 4, #ARGV do redis.call('hdel', KEYS[1], 'ask:' .. ARGV[i]) end
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if string.sub(field, 1, 4) == 'ask:' then
    table.insert(reply, string.sub(field, 5))
    table.insert(reply, redis.call('hget', KEYS[1], field))
  end
end
if not late then
  redis.call('hset', KEYS[1], 'body', ARGV[1])
  redis.call('hset', KEYS[1], 'at', string.format('%.0f', now))
  redis.call('hset', KEYS[1], 'edition', ARGV[2])
end
redis.call('pexpire', KEYS[1], ARGV[3])
return reply
