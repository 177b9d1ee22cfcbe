--[[
Remove everything that is kept of one partition, if the checkpoint is still the one that was shown.

KEYS  1 checkpoint  2 receipts  3 ahead  4 gaps  5 audit  6 history  7 requests
ARGV  1 next  2 epoch  3 generation  4 owner     what must stand there; all '': nothing must

Answers
  INSTALLED          nothing is left
  LOST               the checkpoint is another by now
  {FORMAT_NEWER, format}   what stands there is written in another format
  {CORRUPT}          there is a checkpoint without a generation
  {DENIED, command}  the right to a command is missing
]]
local INSTALLED, LOST, FORMAT_NEWER, CORRUPT, DENIED = 1, 3, 4, 5, 6
local FORMAT = '1'
local kept = redis.call('HMGET', KEYS[1], 'format', 'next', 'epoch', 'generation', 'owner')
if kept[4] then
  if kept[1] ~= FORMAT then return {FORMAT_NEWER, kept[1] or ''} end
  if kept[2] ~= ARGV[1] or kept[3] ~= ARGV[2] or kept[4] ~= ARGV[3] or kept[5] ~= ARGV[4] then
    return LOST
  end
elseif redis.call('EXISTS', KEYS[1]) == 1 then
  return {CORRUPT}
elseif ARGV[3] ~= '' then
  return LOST
end
if redis.acl_check_cmd and not redis.acl_check_cmd('DEL', KEYS[1]) then return {DENIED, 'DEL'} end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7])
return INSTALLED
