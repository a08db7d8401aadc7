-- Reads the history of a lock, without changing it.
--
-- KEYS[1]  the history: stream of {e -> text}
-- ARGV[1]  how many entries to return at most
--
-- {ms, text, ...}  when each entry was added, and its text; the newest first
if redis.call('type', KEYS[1]).ok ~= 'stream' then return {} end
local reply = {}
for _, entry in ipairs(redis.call('xrevrange', KEYS[1], '+', '-', 'count', ARGV[1])) do
  local text = entry[2][2]
  if entry[2][1] == 'e' and #text <= 4096 then
    table.insert(reply, string.match(entry[1], '^%d+'))
    table.insert(reply, text)
  end
end
return reply
