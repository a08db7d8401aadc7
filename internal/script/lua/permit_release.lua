-- Gives permits back, those that exist, and wakes waiters. It also removes the claim of a
-- waiter that has given up.
--
-- KEYS, ARGV[1..3]  as in permit.lua; KEYS[4] is optional
-- ARGV[4]   the prefix of the channels of clients; a client follows
-- ARGV[5]   how to publish there: publish or spublish; '' if no client listens
-- ARGV[6]   serial, as in freed.lua
-- ARGV[7..] ids
--
-- {n}          n of them were given out and had not ended
-- {n, 2}       the same, and the permits were left to Redisson's threads for a moment
-- {n, reason}  the same, but Redis refused to publish
-- {-1}         the key is not a semaphore; nothing was changed
--
-- A permit that had already ended comes back too, but does not count. With KEYS[4], a copy of
-- a call that was answered changes nothing and gets the same reply, whatever that was.
if record then
  unbound()
  local answer = noted() or unfit()
  if answer then return answer end
end
local free = available()
if not free then return {-1} end

local count, found, seen = 0, {}, {}
for i = 7, #ARGV do
  local permit = raw(ARGV[i])
  local over = ends(permit)
  if not over then
    permit = ARGV[i]
    over = ends(permit)
  end
  if over and not seen[permit] then
    seen[permit] = true
    found[#found + 1] = permit
    found[#found + 1] = string.format('%.0f', over)
    if over > now then count = count + 1 end
  end
end
local back = #found / 2
local waited = redis.call('hexists', claims, ARGV[7]) == 1

if record then note(count) end
remove(found) -- first: it needs no free memory, and later writes are not refused for lack of it
add(back)
if waited then will({'hdel', claims, ARGV[7]}) end
local objection = change()
if objection then return objection end
free = free + back
if back == 0 and not waited or free <= 0 then return {count} end -- zero would be no use to any waiter, and Java fails on negative numbers
-- As Redisson: after one permit the number available, else how many came back.
local text = string.format('%.0f', (#ARGV > 7 and not waited) and back or free)
local theirs
if not waited then
  text, theirs = tidings(claims, free, back, ARGV[4], ARGV[5], ARGV[1], string.match(ARGV[2], '%a+'), text, tonumber(ARGV[6]))
end
return {count, announce(text) or theirs and 2 or nil}
