-- The first part of the scripts that change a number which has no owner: that of
-- a semaphore or a latch.
--
-- KEYS[1]  the number: string, in decimal
-- KEYS[2]  the record of a lane: string 'serial answer', what the last operation
--          of the lane answered, for a while, so that a repeat changes nothing and
--          gets the same answer; mortise's own
-- ARGV[1]  for how long the record is kept, in ms
-- ARGV[2]  the operation's serial number; those of a lane rise
--
-- A lane is used for one operation after the other, each of them over before the
-- next begins. So there are no more records than operations at a time, and a copy
-- that arrives after its operation was over is known to be late: {-2}.
--
-- What changed nothing is recorded as well: a copy that comes later might find
-- something to change.
local number, record = KEYS[1], KEYS[2]

-- The number, and whether there is one: 0 and false if not. Nothing at all if
-- what lies there is none, or none that Lua can count with.
local function read()
  local text = redis.pcall('get', number)
  if type(text) == 'table' then
    if string.find(text.err, 'WRONGTYPE') then return end
    redis.call('get', number) -- the error again, to end with
  end
  if not text then return 0, false end
  if text ~= '0' and not string.match(text, '^%-?[1-9]%d*$') or #text > 17 then return end
  local n = tonumber(text)
  if math.abs(n) <= 9007199254740991 then return n, true end
end

-- What an earlier copy of this operation answered; {-2} if the lane has gone on
-- to another one since, and nothing if this is the first copy.
local before
local function earlier()
  before = redis.call('get', record)
  local serial, status, n = string.match(before or '', '^(%d+) (%-?%d+) ?(%-?%d*)$')
  local mine = tonumber(ARGV[2])
  serial = tonumber(serial) or 0
  if serial == mine then return {tonumber(status), tonumber(n)} end
  if serial > mine then return {-2} end
end

-- Records an answer, and returns it. What gives something back must do so even if
-- Redis has no memory left: then it refuses what needs some, but only as the first
-- write of a script.
local function remember(status, n, must)
  local answer = string.format(n and '%s %d %d' or '%s %d', ARGV[2], status, n)
  local done = redis.pcall('set', record, answer, 'px', ARGV[1])
  if done.err then
    if must and string.find(done.err, 'OOM') then redis.call('pexpire', record, ARGV[1]) end
    redis.call('set', record, answer, 'px', ARGV[1])
  end
  return {status, n}
end

-- Makes the change of the number. Where Redis refuses it, the record is again
-- what it was.
local function change(...)
  local result = redis.pcall(...)
  if type(result) == 'table' and result.err then
    if before then redis.pcall('set', record, before, 'px', ARGV[1]) else redis.pcall('del', record) end
  end
  return result
end

-- Announces on a channel, by the commands that ARGV has from the n-th on. Returns
-- what Redis objected. It is the last thing that a script does, and protected:
-- were it to fail the script, the change would be hidden.
local function announce(n, channel, message)
  local objection
  for i = n, #ARGV do
    local sent = redis.pcall(ARGV[i], channel, message)
    if type(sent) == 'table' and sent.err then objection = sent.err end
  end
  return objection
end
