-- Removes a field that does not exist from a key that does not exist. Nothing changes, whatever is there; a server
-- that refuses writes refuses this one.
--
-- KEYS[1]  the key
redis.call('hdel', KEYS[1], 'mortise-doctor')
return 1
