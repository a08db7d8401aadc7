-- The part of the scripts that release permits, after redissons.lua and claims.lua.
local MARK = '000' -- before a number of permits, which Redisson's threads read all the same: those of mortise's waiters
                   -- that it suffices for were notified

-- Notifies the waiters for which the available permits suffice now, but did not before some came back: each on the
-- channel of its client, which follows mine. Returns false if that does not reach all of them: then all waiters must ask. Nil if
-- none has a claim. Nothing here may fail the script.
local function notify(claims, available, back, mine, command, message)
  if command == '' then return false end
  local _, _, others = claimed(claims, '', redis.pcall)
  if crowded then return false end
  if #others == 0 then return nil end
  table.sort(others, function(a, b) return a[1] < b[1] end)
  local wanted = 0
  for _, claim in ipairs(others) do
    wanted = wanted + claim[2]
    if wanted > available then break end
    if wanted > available - back then
      local heard = claim[3] ~= '' and redis.pcall(command, mine .. claim[3], message)
      if type(heard) ~= 'number' or heard == 0 then return false end
    end
  end
  return true
end

-- How permits that came back are announced, and whether they are left to Redisson's threads: so that each client has its part, if
-- such threads listen. The waiters that the permits suffice for are notified, and no others, or all ask.
--   channel, way  as in redissons.lua
--   text          the number of permits, as Redisson announces it
--   serial        of the release, from those of its client; 0 if the permits are not to be left to them, because they did not
--                 take them the last times
local function tidings(claims, available, back, mine, command, channel, way, text, serial)
  local theirs, r, g
  if serial > 0 then theirs, r, g = redissons(channel, command, way) end
  if theirs then
    local word, times = left(r, g, text, serial)
    local call = times > 1 and '~' .. times or '~'
    if times > 0 and notify(claims, available, back, mine, command, call) ~= false then return word, true end
  end
  return (notify(claims, available, back, mine, command, '!') and MARK or '') .. text
end
