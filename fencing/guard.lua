-- The frame of every guarded write: it checks the token, does the write, and records for a while
-- that it was done, in one step.
--
-- KEYS[1]   the fence: the newest token seen, in decimal; a TTL that it was given because it was not
--           used is removed
-- KEYS[2]   the receipt of this call
-- KEYS[3..] the keys of the write
-- ARGV[1]   token, in decimal
-- ARGV[2]   how long the receipt lasts, in ms; 0 for none
-- ARGV[3]   the newest token that the caller has seen at the fence, in decimal
-- ARGV[4..] the arguments of the write
--
-- {1, result} written, now or by an earlier copy of this call
-- {0, newest} refused
-- {-2, newest} the fence has lost the token that the caller has seen there; refused
-- {-1}        the fence does not hold a token; nothing was written
--
-- The function write precedes this text. Tokens are compared as text, which is exact at any length.
local receipt = redis.call('get', KEYS[2])
if receipt then return {1, receipt} end
local newest = redis.call('get', KEYS[1]) or '0'
if not string.find(newest, '^%d+$') then return {-1} end
local function older(a, b) return #a < #b or #a == #b and a < b end
local token = ARGV[1]
if older(newest, ARGV[3]) then return {-2, newest} end
redis.call('persist', KEYS[1])
if older(token, newest) then return {0, newest} end

local keys, args = {unpack(KEYS, 3)}, {unpack(ARGV, 4)}
if token ~= newest then redis.call('set', KEYS[1], token) end
local result = write(keys, args)
if type(result) == 'table' then
  if result.err then return result end
  result = result.ok
end
if type(result) == 'number' then
  result = string.format('%.0f', result)
elseif type(result) ~= 'string' then
  result = ''
end
if ARGV[2] ~= '0' then redis.call('set', KEYS[2], result, 'PX', ARGV[2]) end
return {1, result}
