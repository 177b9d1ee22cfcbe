--[[
Create a group's registry, if there is none.

KEYS  1 registry
ARGV  field, value, field, value, ...     `format` among them

Answers
  {INSTALLED, field, value, ...}   created; what stands there
  {STANDS, field, value, ...}      there was one; what stands there
]]
local INSTALLED, STANDS = 1, 10
local code = STANDS
if redis.call('EXISTS', KEYS[1]) == 0 then
  code = INSTALLED
  -- All fields in few calls: the first may be refused for lack of memory, the others no more.
  for i = 1, #ARGV, 1000 do
    redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + 999, #ARGV)))
  end
end
return {code, redis.call('HGETALL', KEYS[1])}
