-- Writes something after a renewal, so that WAIT has something to wait for:
-- since Redis 7.2 it waits for what its own connection wrote last, and a lease
-- that is long enough as it is needs no writing. What is written comes behind
-- all that made the lease, in the order in which replicas get it.
--
-- KEYS    those of the renewal; of what was renewed, the first exists
-- answer  what the renewal answered, and what this script answers
--
-- The TTL of one key is set to what it is. A key without one has one for no
-- time, which no replica sees; not without the right to take it away again.
if answer.err then return answer end
for i = 1, #KEYS do
  local left = redis.call('pttl', KEYS[i])
  if left > 0 then
    redis.call('pexpire', KEYS[i], left)
    break
  elseif left == -1 then
    local allowed = redis.pcall('persist', KEYS[i])
    if type(allowed) == 'table' then return allowed end
    redis.call('pexpire', KEYS[i], 60000)
    redis.call('persist', KEYS[i])
    break
  end
end
return answer
