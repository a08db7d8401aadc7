-- Sets the end of a permit.
--
-- KEYS, ARGV[1..3]  as in permit.lua
-- ARGV[4]  the id
-- ARGV[5]  in how many ms it ends; below 0 for never
--
-- {1}   done
-- {0}   there is no such permit, or it has ended; nothing was changed
-- {-1}  the key is not a semaphore; nothing was changed
--
-- A copy of a call that was answered changes nothing and gets the same reply, whatever that
-- was.
unbound()
local answer = noted() or unfit()
if answer then return answer end
for _, permit in ipairs({raw(ARGV[4]), ARGV[4]}) do
  local over = ends(permit)
  if over and over > now then
    note(1)
    will({'zadd', out, tonumber(ARGV[5]) < 0 and ENDLESS or now + ARGV[5], permit})
    return change() or {1}
  end
end
return settle(0)
