
-- Whether a holder or waiter is a thread of Redisson's: the UUIDs of mortise's clients have version 8.
local function foreign(owner) return string.sub(owner, 15, 15) ~= '8' end
