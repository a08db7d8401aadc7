-- Draws the next token from KEYS[2], for an acquisition that is about to succeed. It
-- returns the token, or nil and the reply if there is none. Lua's numbers are exact only
-- up to 2^53, and a token has to be positive.
local function draw()
  local token = redis.pcall('incr', KEYS[2])
  if type(token) ~= 'number' then
    if string.find(token.err, 'not an integer', 1, true) or string.find(token.err, 'overflow', 1, true) then
      return nil, {-2}
    end
    return nil, token
  end
  if token < 1 or token > 9007199254740991 then return nil, {-2} end
  redis.call('persist', KEYS[2])
  return token
end

