--[[
Say in a group's registry that its topics are those of another cluster: other ids, other baselines.

KEYS  1 registry  2 audit
ARGV  1 the store's id, which must stand there
      2 audit entry, JSON
      3 number of topics, then for each: name, id ('': none), number of partitions
      . number of fields to set, then for each: field, value

Answers
  INSTALLED          done
  {LOST, store}      the registry is another's ('' : there is none)
  {FORMAT_NEWER, format}   the registry is written in another format
  {DENIED, command}  the right to a command is missing
]]
local INSTALLED, LOST, FORMAT_NEWER, DENIED = 1, 3, 4, 6
local FORMAT = '1'
local AUDIT_MAX = 1000
local head = redis.call('HMGET', KEYS[1], 'format', 'store')
if head[1] and head[1] ~= FORMAT then return {FORMAT_NEWER, head[1]} end
if head[2] ~= ARGV[1] then return {LOST, head[2] or ''} end
if redis.acl_check_cmd then
  for _, command in ipairs({{'HSET', KEYS[1], '', ''}, {'XADD', KEYS[2], '*', '', ''}}) do
    if not redis.acl_check_cmd(unpack(command)) then return {DENIED, command[1]} end
  end
end
local topics = tonumber(ARGV[3])
for i = 4, 3 + 3 * topics, 3 do
  local name, id, partitions = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('HSET', KEYS[1], 'topic:' .. name, id, 'partitions:' .. name, partitions,
    'first:' .. name, partitions)
end
local at = 4 + 3 * topics
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', AUDIT_MAX, '*', 'j', ARGV[2])
return INSTALLED
