-- Adds acquisitions that have ended to the history of a lock.
--
-- KEYS[1]  the history: stream of {e -> text}
-- ARGV[1]  how many entries to keep
-- ARGV[2]  how long the history lasts after its last entry, in ms
-- ARGV...  the entries, the oldest first
--
-- 1  they were added
for i = 3, #ARGV do redis.call('xadd', KEYS[1], 'maxlen', ARGV[1], '*', 'e', ARGV[i]) end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1
