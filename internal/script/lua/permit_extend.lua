-- Sets when a permit ends.
--
-- KEYS[1..3], ARGV[1..3]  as in permit.lua
-- ARGV[4]  the id
-- ARGV[5]  in how many ms; below 0 for never
--
-- {1}   done
-- {0}   there is no such permit, or it is over; nothing was changed
-- {-1}  the key is not that of a semaphore; nothing was changed
if not available() then return {-1} end
for _, permit in ipairs({raw(ARGV[4]), ARGV[4]}) do
  local over = ends(permit)
  if over and over > now then
    redis.call('zadd', out, tonumber(ARGV[5]) < 0 and ENDLESS or now + ARGV[5], permit)
    return {1}
  end
end
return {0}
