-- The part of the scripts of the permit semaphore that follows claims.lua: what
-- there is, and how it is changed.
--
-- KEYS[1]  how many permits are available: string, an integer  (Redisson's)
-- KEYS[2]  those that are given out: zset {id -> end in ms since the epoch}  (Redisson's)
-- KEYS[3]  the claims, see claims.lua; a waiter's name is its first permit's id
-- KEYS[4]  what this operation answered, if it ran before: string; not in all scripts
-- ARGV[1]  channel
-- ARGV[2]  how to publish: publish, spublish, or both
-- ARGV[3]  for how long KEYS[4] is kept, in ms
--
-- A permit's id is 16 bytes, here given as 32 hex digits. Redisson up to 3.16
-- stores the digits themselves. Times are the server's. A permit whose end has
-- come is taken back by whoever runs the next script; until then it is still in
-- KEYS[2].
local value, out, claims, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local ENDLESS = '922337203685477' -- Redisson's end of a permit without time limit, compared as text

-- A permit's id as it is stored.
local function raw(id)
  return (string.gsub(id, '%x%x', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- How many permits are available: 0 if the key is not there, nil if it is not
-- that of a semaphore.
local exists
local function available()
  local text = redis.call('get', value)
  exists = text and true or false
  if not exists then return 0 end
  if #text > 15 or not string.match(text, '^%-?%d+$') then return nil end
  return tonumber(text)
end

-- When a permit that is stored so ends, or nil.
local function ends(permit) return tonumber(redis.call('zscore', out, permit) or '') end

-- What is to be changed: commands, each with the one that undoes it.
local plan = {}
local function will(command, undo) plan[#plan + 1] = {command, undo} end

-- Makes the changes. If Redis refuses one, those before it are undone, and the
-- refusal is returned.
local function change()
  for i, step in ipairs(plan) do
    local reply = redis.pcall(unpack(step[1]))
    if type(reply) == 'table' and reply.err then
      for j = i - 1, 1, -1 do
        if plan[j][2] then redis.pcall(unpack(plan[j][2])) end
      end
      return reply
    end
  end
end

-- Changes how many permits are available.
local function add(n)
  if n ~= 0 then will({'incrby', value, n}, exists and {'incrby', value, -n} or {'del', value}) end
end

-- Takes permits out, but for some; they are pairs of what is stored and its end.
local function remove(permits, but)
  for i = 1, #permits, 2 do
    if not (but and but[permits[i]]) then
      will({'zrem', out, permits[i]}, {'zadd', out, permits[i + 1], permits[i]})
    end
  end
end

-- What an earlier copy of this operation answered. Nothing if this is the first.
local function noted()
  local outcome = redis.call('get', record)
  if not outcome or outcome == '' then return nil end
  return tonumber(outcome) and {tonumber(outcome)} or {err = outcome}
end

-- Notes what this operation answers, so that a repeat, or a copy that comes late,
-- answers the same and does nothing.
local function note(outcome) will({'set', record, outcome, 'px', ARGV[3]}, {'set', record, '', 'px', 1}) end

-- Lets what follows be written without free memory. Redis refuses that to a
-- script only as its first writing, and a command that takes away is never
-- refused. This one takes nothing away.
local function unbound() redis.pcall('zrem', out, '') end

-- The answer of an operation that changes nothing. It is noted as any other: a
-- copy that comes late might find something to change.
local function settle(outcome)
  note(outcome)
  return change() or {tonumber(outcome)}
end

-- The answer of an operation if there is no semaphore that it could change.
local function unfit()
  for _, look in ipairs({{'get', value}, {'zcard', out}}) do
    local found = redis.pcall(unpack(look))
    if type(found) == 'table' and found.err then
      if not string.find(found.err, 'WRONGTYPE') then return found end
      note(found.err)
      return change() or found
    end
  end
  if not available() then return settle(-1) end
end

-- Announces permits. Returns what Redis objected. It is the last thing that a
-- script does, and protected: were it to fail the script, the caller would be
-- told that nothing was done.
local function announce(message)
  local objection
  for command in string.gmatch(ARGV[2], '%a+') do
    local sent = redis.pcall(command, ARGV[1], string.format('%.0f', message))
    if type(sent) == 'table' then objection = sent.err end
  end
  return objection
end
