-- Sets the count of a lock that the owner holds, extends its lease, and draws a token.
--
-- KEYS[1]  the lock: hash {owner -> count}
-- KEYS[2]  the token drawn last
-- ARGV[1]  owner
-- ARGV[2]  the new count, absolute, so that a repeat changes nothing but the token; 0 if it stays as it is
-- ARGV[3]  lease in ms; a longer one that is already set stays
--
-- {1, token}  done
-- {0}         the owner does not hold the lock; nothing was changed
-- {-2}        KEYS[2] does not hold a usable token counter; nothing else was changed
--
-- The count comes last: it must not stay raised by a re-entry that failed. A count of 0 is as in lock_reenter.lua.
local count = redis.call('hget', KEYS[1], ARGV[1])
if not count then return {0} end
local token, failure = draw()
if not token then return failure end
if count == '0' or redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
if ARGV[2] ~= '0' or count == '0' then redis.call('hset', KEYS[1], ARGV[1], ARGV[2] ~= '0' and ARGV[2] or 1) end
return {1, token}
