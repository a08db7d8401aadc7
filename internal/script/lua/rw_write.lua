-- The second part of the scripts that remove a writer from the read/write lock.

-- Message 1 wakes all sleeping threads of Redisson's. Threads that have just lost an attempt
-- and are about to sleep miss it. Message 0, which Redisson also reads from 00, is kept for
-- one of them; Redisson before 3.8.2 has no other message. Several threads of a client may be
-- about to sleep at once, but rarely more than ECHOES. A message that no thread needs costs a
-- client one attempt. Mortise's waiters need only the first message.
local ECHOES = 3

-- Whether the lock goes on as a read lock without its writer, for the readers with the same
-- owner in the process, and the lease of the longest of these in ms, 0 if it is not known. Then
-- the fields of the lock.
local function readers()
  local fields, all = entries()
  local by, _, left, more = reader(fields, '')
  all = all and not more
  return by ~= nil or not all, all and left or 0, fields
end

-- Removes the writer, with what readers returned, and announces that, by the commands in ARGV
-- from the n-th on. Returns the reply of the script.
local function stop(goes, left, n)
  if goes then
    unbound()
    redis.call('hset', lock, 'mode', 'read')
    if left > 0 then redis.call('pexpire', lock, left) end
    redis.call('hdel', lock, owner)
  else
    redis.call('del', lock)
  end
  local objection, theirs = announce('1', ARGV[3], n)
  for _ = 1, ECHOES do
    for i = n, #ARGV do redis.pcall(ARGV[i], ARGV[3], '00') end
  end
  return {theirs and not objection and 2 or 1, objection}
end
