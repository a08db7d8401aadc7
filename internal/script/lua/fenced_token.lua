-- Reads the token that was drawn last.
--
-- KEYS[1]  the token
--
-- {token}  in decimal, or whatever else is stored there; '0' if none was ever drawn
return {redis.call('get', KEYS[1]) or '0'}
