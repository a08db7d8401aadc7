-- Frees a lock whoever holds it, and wakes waiters.
--
-- KEYS[1]   the lock: hash {owner -> count}
-- ARGV[1]   channel
-- ARGV[2..] how to publish: publish, spublish, or both
--
-- {1, owner, count, reason}  freed; reason is '' unless Redis refused to publish
-- {0}                        nobody held it
-- {-1}                       the key is a hash, but not that of a plain lock
local holders = redis.call('hlen', KEYS[1])
if holders == 0 then return {0} end
if holders > 1 then return {-1} end
local holder = redis.call('hgetall', KEYS[1])
redis.call('del', KEYS[1])
local refused = ''
for i = 2, #ARGV do
  local sent = redis.pcall(ARGV[i], ARGV[1], '0')
  if type(sent) == 'table' and sent.err then refused = sent.err end
end
return {1, holder[1], holder[2], refused}
