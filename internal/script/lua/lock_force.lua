-- Releases a lock by force: it does what lock_release.lua does, whose text is the function release,
-- and then draws a token, and moves the fence of the resource with the lock's name on to it. The
-- tokens of the owner that has lost the lock, and of all before, are then older than the fence.
--
-- KEYS[..]  those of lock_release.lua, and after them:
-- KEYS[n-1] the token drawn last, a number; without it there are no tokens, and nothing else is done
-- KEYS[n]   the fence: the newest token that the resource has seen, in decimal
-- ARGV      those of lock_release.lua
--
-- The replies are those of lock_release.lua. A fence that holds no number is left alone, and so is one
-- that is newer. Nothing here may fail the script: the caller would not learn that the lock was
-- released.
local reply = release()
local token, fence = KEYS[#KEYS - 1], KEYS[#KEYS]
if reply == 20 or redis.pcall('exists', token) ~= 1 then return reply end
local drawn = redis.pcall('incr', token)
if type(drawn) ~= 'number' or drawn < 1 or drawn > 9007199254740991 then return reply end
redis.pcall('persist', token)
local newest = redis.pcall('getrange', fence, 0, 31)
if newest == '' or type(newest) == 'table' then newest = redis.pcall('get', fence) or '0' end
if type(newest) ~= 'string' or not string.find(newest, '^%d+$') then return reply end
local text = string.format('%.0f', drawn)
if #newest < #text or #newest == #text and newest < text then redis.pcall('set', fence, text) end
return reply
