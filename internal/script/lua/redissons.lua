-- How a release is announced: words that Redisson's threads read as one and the same number.
local FREE = '0'      -- the lock is free
local OURS = '0000'   -- the same, to tell it from a release by a thread of Redisson's
local LEFT = '000'    -- the same, but Redisson's threads have the first chance; with n zeros more, n times in a row, n from 2 on
local ELSEWHERE = '00' -- the lock is not free: it tells Redisson's threads to ask for how long

-- Whether threads of Redisson's listen to a channel; nil if that cannot be known. Then how many of Redisson's clients
-- do, and how many of mortise's. mortise's clients also subscribe to 'mortise:heeds:<channel>', which tells them apart. On a cluster
-- the classic subscribers may be those of other servers.
--   command  how mortise publishes to its own clients: publish or spublish
--   way      the first command by which releases are announced
local function redissons(channel, command, way)
  if command == '' or command == 'spublish' and way == 'publish' then return nil end
  local probe = command == 'spublish' and 'shardnumsub' or 'numsub'
  local n = redis.pcall('pubsub', probe, channel, 'mortise:heeds:' .. channel)
  if n.err then return nil end
  return n[2] > n[4], n[2] - n[4], n[4]
end

-- How a release that is left to r clients of Redisson's beside g of mortise's is announced: each client has its turn.
local MOST = 8
local function left(r, g)
  local times = math.min(math.floor(r / math.max(g, 1) + 0.5), MOST)
  return times > 1 and LEFT .. string.rep('0', times) or LEFT, times
end

