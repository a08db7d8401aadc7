-- How a release is announced: words that Redisson's threads read as one and the same number.
local FREE = '0'      -- the lock is free
local OURS = '0000'   -- the same, to tell it from a release by a thread of Redisson's
local LEFT = '000'    -- the same, but Redisson's threads have the first chance, see left
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

-- How a release is announced of which Redisson's threads hear, r of whose clients listen, and g of mortise's: so that each
-- client has its part, the lock is theirs several times in a row, or not after each release. Redisson reads the digit.
-- Then how often it is theirs.
--   '00' n zeros, digit  left to them, n times in a row, n from 2 on
--   '00' digit           left to them
--   '000' digit          not left to them
-- Serial, for what has no turns, is a number of its client that grows with each release, such as that of the owner: it tells which
-- release is not theirs. They have their part also if every second number, or every third, is of something else.
local MOST = 8
local function left(r, g, digit, serial)
  local times = math.min(math.floor(r / math.max(g, 1) + 0.5), MOST)
  if times > 1 then return '00' .. string.rep('0', times) .. digit, times end
  if serial and g > r and math.floor(serial * 0.6180339887498949 % 1 * g) * r % g >= r then return '000' .. digit, 0 end
  return '00' .. digit, 1
end
