-- Does nothing. What follows it on its connection is what is wanted.
--
-- KEYS[1]  says on which master
--
-- {}
return {}
