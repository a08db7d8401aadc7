-- Reads the token that was drawn last.
--
-- KEYS[1]  the token
--
-- {token}  in decimal, or whatever else is stored there, cut to 32 bytes; '0' if none was ever drawn
local token = redis.call('getrange', KEYS[1], 0, 31)
return {token ~= '' and token or redis.call('get', KEYS[1]) or '0'}
