-- How a release is announced, in words that are one number to Redisson's threads.
local FREE = '0'      -- the lock is free
local OURS = '0000'   -- the same, said to tell it from a release by one of these threads
local LEFT = '000'    -- the same, and they have the first chance
local ELSEWHERE = '00' -- it is not free: they hear of it to learn for how long

-- Whether threads of Redisson's listen to a channel; nil if that cannot be known.
-- mortise's clients listen to 'mortise:heeds:<channel>' besides, so that they can
-- be told apart. On a cluster the classic listeners may be those of other servers.
--   command  how mortise publishes to its own: publish or spublish
--   way      the first one in which releases are announced
local function redissons(channel, command, way)
  if command == '' or command == 'spublish' and way == 'publish' then return nil end
  local probe = command == 'spublish' and 'shardnumsub' or 'numsub'
  local n = redis.pcall('pubsub', probe, channel, 'mortise:heeds:' .. channel)
  if n.err then return nil end
  return n[2] > n[4]
end

