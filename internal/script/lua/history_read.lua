-- Reads the history of a lock, without changing it.
--
-- KEYS[1]  the history: stream of {e -> text}
-- ARGV[1]  how many entries to return at most
--
-- {n, ms, text, ...}  how many entries were read; when each of ours was added, and its text,
--                     the newest first
--
-- It reads no more once it has read much: ours are short.
local TEXT, MUCH, SOME = 4096, 4000000, 20
if redis.call('type', KEYS[1]).ok ~= 'stream' then return {0} end
local most, bytes, before = tonumber(ARGV[1]), 0, '+'
local reply = {0}
while reply[1] < most and bytes < MUCH do
  local some = math.min(SOME, most - reply[1])
  -- Before Redis 6.2 a range has no open end: the entry before is read once more.
  local entries = redis.call('xrevrange', KEYS[1], before, '-', 'count', before == '+' and some or some + 1)
  local read = 0
  for _, entry in ipairs(entries) do
    local id, fields = entry[1], entry[2]
    if id ~= before then
      read = read + 1
      for _, text in ipairs(fields) do bytes = bytes + #text end
      if fields[1] == 'e' and #fields[2] <= TEXT then
        table.insert(reply, string.match(id, '^%d+'))
        table.insert(reply, fields[2])
      end
    end
  end
  if read == 0 then break end
  reply[1] = reply[1] + read
  before = entries[#entries][1]
end
return reply
