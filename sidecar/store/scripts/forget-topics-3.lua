--[[
Take topics out of a group's registry, or remove all that is kept of the group.

KEYS  1 registry  2 partitions  3 audit
ARGV  1 the store's id, which must stand there
      2 audit entry, JSON ('': the whole group goes, and nothing remains to write it into)
      3 and further: the topics' names, as keys spell them

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
  for _, command in ipairs({
    {'DEL', KEYS[1]}, {'HDEL', KEYS[1], ''}, {'HKEYS', KEYS[1]}, {'SMEMBERS', KEYS[2]},
    {'SREM', KEYS[2], ''}, {'XADD', KEYS[3], '*', '', ''},
  }) do
    if not redis.acl_check_cmd(unpack(command)) then return {DENIED, command[1]} end
  end
end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
  return INSTALLED
end
local going = {}
for i = 3, #ARGV do going[ARGV[i]] = true end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local kind, rest = string.match(field, '^(%l+):(.*)$')
  if kind == 'baseline' or kind == 'started' then rest = string.match(rest, '^(.*)/%d+$') end
  if rest and going[rest] then redis.call('HDEL', KEYS[1], field) end
end
for _, listed in ipairs(redis.call('SMEMBERS', KEYS[2])) do
  if going[string.match(listed, '^(.*)/%d+$') or ''] then redis.call('SREM', KEYS[2], listed) end
end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', AUDIT_MAX, '*', 'j', ARGV[2])
return INSTALLED
