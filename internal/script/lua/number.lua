-- The first part of the scripts that change a number without owner: that of a semaphore or a
-- latch.
--
-- KEYS[1]  the number: string, in decimal
-- KEYS[2]  the record of a lane: string 'serial answer', the reply to the last operation of
--          the lane. It is kept for a while, so that a repeat changes nothing and gets the
--          same reply; mortise's own
-- ARGV[1]  for how long the record is kept, in ms
-- ARGV[2]  the operation's serial number; those of a lane rise
--
-- The operations of a lane run one after another; each ends before the next begins. So there
-- are no more records than concurrent operations, and a copy that arrives after its operation
-- has ended is known to be late: {-2}.
--
-- An operation that changed nothing is recorded as well: a later copy might find something to
-- change.
local number, record = KEYS[1], KEYS[2]

-- The number, and whether it exists: 0 and false if not. Nothing if the value is not a
-- number, or one that Lua cannot represent exactly. No more is read than a number has: the value may be
-- very long.
local function read()
  local text = redis.pcall('getrange', number, 0, 17)
  if type(text) == 'table' then
    if string.find(text.err, 'WRONGTYPE') then return end
    redis.call('getrange', number, 0, 17) -- fails the script with the same error
  end
  if text == '' and not redis.call('get', number) then return 0, false end
  if text ~= '0' and not string.match(text, '^%-?[1-9]%d*$') or #text > 17 then return end
  local n = tonumber(text)
  if math.abs(n) <= 9007199254740991 then return n, true end
end

-- The reply of an earlier copy of this operation: {-2} if the lane has gone on to another
-- operation since, nothing if this is the first copy.
local before -- the record; '' if there is none
local function earlier()
  before = redis.call('getrange', record, 0, 99)
  local serial, status, n = string.match(before, '^(%d+) (%-?%d+) ?(%-?%d*)$')
  local mine = tonumber(ARGV[2])
  serial = tonumber(serial) or 0
  if serial == mine then return {tonumber(status), tonumber(n)} end
  if serial > mine then return {-2} end
end

-- Records a reply, and returns it. An operation that gives something back must do so even if
-- Redis is out of memory: Redis then refuses writes that need memory, but only as the first
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

-- Changes the number. If Redis refuses, the record is restored.
local function change(...)
  local result = redis.pcall(...)
  if type(result) == 'table' and result.err then
    if before ~= '' then redis.pcall('set', record, before, 'px', ARGV[1]) else redis.pcall('del', record) end
  end
  return result
end

-- Announces on a channel, by the commands in ARGV from the n-th on. Returns Redis' error, if
-- there is one. It comes last in a script and is protected: if it failed the script, the
-- caller would not learn of the change.
local function announce(n, channel, message)
  local objection
  for i = n, #ARGV do
    local sent = redis.pcall(ARGV[i], channel, message)
    if type(sent) == 'table' and sent.err then objection = sent.err end
  end
  return objection
end
