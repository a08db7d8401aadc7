-- Says which commands the user of this connection may run. It runs none of them.
--
-- KEYS     any key of the server, which is not used, or none
-- ARGV     for each command the number of its words, and then these
--
-- {answer, ...}  for each command 1 if the user may run it, 0 if not, -1 if the server does not know
--                it; {} if the server cannot tell, as before Redis 7.0
local reply = {}
if not redis.acl_check_cmd then return reply end
local at = 1
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  local known, may = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
  table.insert(reply, not known and -1 or may and 1 or 0)
  at = at + 1 + words
end
return reply
