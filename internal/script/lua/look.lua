-- Does nothing. Its caller wants the commands that follow it on the same connection.
--
-- KEYS[1]  selects the master
--
-- {}
return {}
