-- The part of the scripts of the permit semaphore that follows claims.lua: the data, and how
-- it is changed.
--
-- KEYS[1]  the number of available permits: string, an integer  (Redisson's)
-- KEYS[2]  the permits given out: zset {id -> end in ms since the epoch}  (Redisson's)
-- KEYS[3]  the claims, see claims.lua; a waiter's name is the id of its first permit
-- KEYS[4]  the reply to this operation, if it ran before: string; not in all scripts
-- ARGV[1]  channel
-- ARGV[2]  how to publish: publish, spublish, or both
-- ARGV[3]  for how long KEYS[4] is kept, in ms
--
-- A permit's id is 16 bytes, passed as 32 hex digits. Redisson up to 3.16 stores the digits
-- themselves. Times are the server's. A permit whose end has passed stays in KEYS[2] until the
-- next script takes it back.
local value, out, claims, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local ENDLESS = '922337203685477' -- Redisson's end of a permit without time limit, compared as text

-- A permit's id as stored.
local function raw(id)
  return (string.gsub(id, '%x%x', function(digits) return string.char(tonumber(digits, 16)) end))
end

-- The number of available permits: 0 if the key does not exist, nil if it is not a semaphore. Redis
-- adds to no integer in another form, and the value may be very long: no more of it is read than a number has.
local exists
local function available()
  local text = redis.call('getrange', value, 0, 15)
  exists = text ~= '' or redis.call('get', value) ~= false
  if not exists then return 0 end
  if text ~= '0' and not string.match(text, '^%-?[1-9]%d*$') or #text > 15 then return nil end
  return tonumber(text)
end

-- The end of a stored permit, or nil.
local function ends(permit) return tonumber(redis.call('zscore', out, permit) or '') end

-- The planned changes: commands, each with the one that undoes it.
local plan = {}
local function will(command, undo) plan[#plan + 1] = {command, undo} end

-- Makes the changes. If Redis refuses one, those before it are undone, and the error is
-- returned.
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

-- Changes the number of available permits.
local function add(n)
  if n ~= 0 then will({'incrby', value, n}, exists and {'incrby', value, -n} or {'del', value}) end
end

-- Removes permits, except some; they are pairs of the stored id and its end.
local function remove(permits, but)
  for i = 1, #permits, 2 do
    if not (but and but[permits[i]]) then
      will({'zrem', out, permits[i]}, {'zadd', out, permits[i + 1], permits[i]})
    end
  end
end

-- The reply of an earlier copy of this operation; nil if this is the first.
local function noted()
  local outcome = redis.call('getrange', record, 0, 299)
  if outcome == '' then return nil end
  return tonumber(outcome) and {tonumber(outcome)} or {err = outcome}
end

-- Records the reply of this operation: a repeat, or a late copy, replies the same and does
-- nothing.
local function note(outcome) will({'set', record, outcome, 'px', ARGV[3]}, {'set', record, '', 'px', 1}) end

-- Lets the following commands write when Redis is out of memory. Redis refuses only the first
-- write of a script for that, and never a command that removes something. This one removes
-- nothing.
local function unbound() redis.pcall('zrem', out, '') end

-- The reply of an operation that changes nothing. It is recorded like any other: a late copy
-- might find something to change.
local function settle(outcome)
  note(outcome)
  return change() or {tonumber(outcome)}
end

-- The reply of an operation if there is no semaphore for it to change.
local function unfit()
  for _, look in ipairs({{'getrange', value, 0, 0}, {'zcard', out}}) do
    local found = redis.pcall(unpack(look))
    if type(found) == 'table' and found.err then
      if not string.find(found.err, 'WRONGTYPE') then return found end
      note(found.err)
      return change() or found
    end
  end
  if not available() then return settle(-1) end
end

-- Announces permits: their number, or what stands for it. Returns Redis' error, if there is one. It comes last in a script and is
-- protected: if it failed the script, the caller would not learn of the change.
local function announce(message)
  if type(message) == 'number' then message = string.format('%.0f', message) end
  local objection
  for command in string.gmatch(ARGV[2], '%a+') do
    local sent = redis.pcall(command, ARGV[1], message)
    if type(sent) == 'table' then objection = sent.err end
  end
  return objection
end
