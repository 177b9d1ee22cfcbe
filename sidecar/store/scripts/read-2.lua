--[[
A checkpoint, and the open gap that it names, as they stand at one moment.

KEYS  1 checkpoint  2 gaps
ARGV  none

Answers
  {format, next, epoch, generation, owner, horizon, gap, body, gap's JSON, additions' JSON}
  A field that is not there is nil; without any, nothing is there.
]]
local fields = redis.call('HMGET', KEYS[1], 'format', 'next', 'epoch', 'generation', 'owner',
  'horizon', 'gap', 'body')
local gap, added = false, false
if fields[7] and fields[7] ~= '' then
  local both = redis.call('HMGET', KEYS[2], fields[7], '+' .. fields[7])
  gap, added = both[1], both[2]
end
if not fields[1] and not fields[4] and redis.call('EXISTS', KEYS[1]) == 0 then return {} end
fields[9], fields[10] = gap, added
return fields
