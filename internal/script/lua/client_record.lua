-- Writes, renews or deletes the record of a client.
--
-- KEYS[1]  the record: hash {body, at, edition, ask:<lease> ...}
-- ARGV[1]  the body; '' to delete the record
-- ARGV[2]  its edition: a higher one is newer
-- ARGV[3]  how long it lasts, in ms
-- ARGV...  the requests that the client has seen: each lease with the text
--
-- {now, lease, text, ...}  the server's time in ms, and each other lease that the client is
--                          asked to release, with the text of the request
--
-- A copy that arrives after a newer edition changes nothing. A forged edition is not newer
-- for long: what is there counts only as long as a record of ours would last.
--
-- The key is mortise's own, and names this client alone: what is not its record is removed,
-- in the background, because it may be large.
local FIELDS, LEASE, TEXT = 1000, 256, 4096 -- what one of ours does not exceed
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply = {string.format('%.0f', now)}
local kind = redis.call('type', KEYS[1]).ok
local ttl = redis.call('pttl', KEYS[1])
local edition, lasting = tonumber(ARGV[2]), tonumber(ARGV[3])
if kind ~= 'none' and (kind ~= 'hash' or redis.call('hlen', KEYS[1]) > FIELDS) then
  redis.call('unlink', KEYS[1])
elseif kind == 'hash' and ttl >= 0 and ttl <= lasting and redis.call('hstrlen', KEYS[1], 'edition') < 20 then
  local last = tonumber(redis.call('hget', KEYS[1], 'edition') or '')
  if last and last > edition and last < edition + 1000000 then return reply end
end
if ARGV[1] == '' then
  redis.call('del', KEYS[1])
  return reply
end
for i = 4, #ARGV - 1, 2 do
  local field = 'ask:' .. ARGV[i]
  if redis.call('hget', KEYS[1], field) == ARGV[i + 1] then redis.call('hdel', KEYS[1], field) end
end
for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
  if string.sub(field, 1, 4) == 'ask:' then
    if #field > LEASE + 4 or redis.call('hstrlen', KEYS[1], field) > TEXT then
      redis.call('hdel', KEYS[1], field)
    else
      table.insert(reply, string.sub(field, 5))
      table.insert(reply, redis.call('hget', KEYS[1], field))
    end
  end
end
redis.call('hset', KEYS[1], 'body', ARGV[1])
local limited = redis.pcall('pexpire', KEYS[1], ARGV[3])
if limited ~= 1 then
  redis.call('del', KEYS[1]) -- otherwise it would stay forever
  return limited
end
redis.call('hset', KEYS[1], 'at', string.format('%.0f', now))
redis.call('hset', KEYS[1], 'edition', ARGV[2])
return reply
