--[[
Add to an open gap from outside (acknowledge it, note a fence). Raises no generation and keeps the
owner, who is told by the counter of requests.

The gap itself is not written: what is added stands in a field of its own, `+ID`, and reading puts
the two together. So neither the owner nor this script overwrites the other.

KEYS  1 checkpoint  2 gaps
ARGV  1 gap's id  2 reason  3 cluster's id  4 topic's id ('': none)  5 lineage  6 state as the owner
      wrote it     what must stand there
      7 what was added so far ('': nothing)  8 what shall stand as added

Answers
  INSTALLED     it stands
  LOST          the gap is another by now, or none
  CHANGED       somebody else added something: read again
  {CORRUPT}     the gap cannot be read
  {DENIED, command}  the right to a command is missing
]]
local INSTALLED, LOST, CORRUPT, DENIED, CHANGED = 1, 3, 5, 6, 9
local both = redis.call('HMGET', KEYS[2], ARGV[1], '+' .. ARGV[1])
if not both[1] then return LOST end
local read, gap = pcall(cjson.decode, both[1])
if not read or type(gap) ~= 'table' then return {CORRUPT} end
local function text(value) return value ~= cjson.null and value or '' end
if gap.reason ~= ARGV[2] or gap.cluster_id ~= ARGV[3] or text(gap.topic_id) ~= ARGV[4]
  or tostring(gap.lineage) ~= ARGV[5] or gap.state ~= ARGV[6] then
  return LOST
end
if (both[2] or '') ~= ARGV[7] then return CHANGED end
if redis.acl_check_cmd and not redis.acl_check_cmd('HINCRBY', KEYS[1], 'requests', '1') then
  return {DENIED, 'HINCRBY'}
end
redis.call('HSET', KEYS[2], '+' .. ARGV[1], ARGV[8])
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HINCRBY', KEYS[1], 'requests', 1) end
return INSTALLED
