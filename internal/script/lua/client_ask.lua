-- Asks a client to release a lease.
--
-- KEYS[1]  the record of the client: hash {body, at, edition, ask:<lease> ...}
-- ARGV[1]  the lease
-- ARGV[2]  the text of the request
-- ARGV[3]  the channel on which the client is told to look
-- ARGV...  the commands that publish
--
-- {1}  the client was asked
-- {0}  it has no record
--
-- The request lasts as long as the record, or until the client has seen it. Without the right
-- to publish, the client sees it when it next writes its record.
local FIELDS = 1000 -- limit; a hash with more of them is not ours
if redis.call('type', KEYS[1]).ok ~= 'hash' or redis.call('hexists', KEYS[1], 'body') == 0 then return {0} end
if redis.call('hlen', KEYS[1]) >= FIELDS then return {0} end
redis.call('hset', KEYS[1], 'ask:' .. ARGV[1], ARGV[2])
for i = 4, #ARGV do redis.pcall(ARGV[i], ARGV[3], 'ask') end
return {1}
