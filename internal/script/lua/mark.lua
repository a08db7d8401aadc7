-- Writes something after a script that keeps a lease, so that WAIT has something to wait for: since Redis
-- 7.2 it waits for the last write of its own connection, and a lease that is long enough
-- is not written again. Replicas get this write after all that made the lease.
--
-- KEYS    those of the script; among them, the first that exists is written
-- answer  the reply of the script, and of this one
--
-- The TTL of one key is set to its current value. A key without TTL has one for an instant
-- that no replica sees, and only if Redis would allow its removal again.
if type(answer) == 'table' and answer.err then return answer end
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
