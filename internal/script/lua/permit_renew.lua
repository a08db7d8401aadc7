-- Renews leases of permits in a batch. All keys are in one slot.
--
-- KEYS[i]  the permits given out, of one semaphore: zset {id -> end in ms}
-- ARGV     for each key: the number of ids, the lease in ms, the ids in hex, and two words
--          that are not used
--
-- {s1, s2, ..., now}  for each key
--   1  all were renewed; a later end that is already set stays: an operator may have set it
--   0  one of them is gone, or has ended; nothing was renewed
-- now  in ms since the epoch
--
-- The first write removes nothing: after it, Redis does not refuse writes for lack of memory.
--
-- A key of another type must not fail the whole batch, hence the pcall. Any other failure
-- does not depend on the key: it does not tell anything about the permits.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local function raw(id)
  return (string.gsub(id, '%x%x', function(digits) return string.char(tonumber(digits, 16)) end))
end

local states, at = {}, 1
for i, out in ipairs(KEYS) do
  local number, till = tonumber(ARGV[at]), now + ARGV[at + 1]
  local late = {}
  states[i] = 1
  for j = at + 2, at + 1 + number do
    local permit = raw(ARGV[j])
    local over = redis.pcall('zscore', out, permit)
    if type(over) == 'table' then
      if not string.find(over.err, 'WRONGTYPE') then return over end
      over = nil
    end
    over = tonumber(over or '')
    if not over or over <= now then
      states[i] = 0
    elseif over < till then
      late[#late + 1] = permit
    end
  end
  if states[i] == 1 then
    if late[1] then redis.call('zrem', out, '') end
    for _, permit in ipairs(late) do redis.call('zadd', out, till, permit) end
  end
  at = at + 4 + number
end
states[#KEYS + 1] = now
return states
