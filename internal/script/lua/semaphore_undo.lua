-- Ends an acquisition that is not wanted any more: what it took goes back, a later copy takes
-- nothing, and its claim ends.
--
-- KEYS[1..3], ARGV[1..4]  as in semaphore_acquire.lua
-- ARGV[5]   '1' if a copy of it may have run, or may yet; '0' if not
-- ARGV[6]   channel
-- ARGV[7..] how to publish: publish, spublish, or both
--
-- {1} permits went back      {1, reason} but Redis refused to publish
-- {0} there were none        {0, reason} the same
--
-- Permits of a semaphore that was deleted since are not given back: that would create it
-- anew. The waiters that claimed behind it are woken: they may have more.
local available, exists = read()
local told = earlier()
if told and told[1] == 0 then return told[2] == 1 and {1} or {0} end
local taken = told and told[1] == 1
local back = taken and exists
local _, _, others = claimed(KEYS[3], ARGV[4], redis.call)
local claimant = redis.call('hdel', KEYS[3], ARGV[4]) == 1 -- also a first write that needs no memory
if ARGV[5] == '1' and (taken or not told) then remember(0, back and 1 or 0) end
if back then
  local total = redis.pcall('incrby', number, ARGV[3])
  if type(total) == 'table' then
    remember(1) -- for a repeat to give back
    return total
  end
  return {1, announce(7, ARGV[6], string.format('%d', total))}
end
if claimant and #others > 0 and exists and available > 0 then
  return {0, announce(7, ARGV[6], string.format('%d', available))}
end
return {0}
