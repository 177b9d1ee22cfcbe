--[[
Add to a group's registry what is not yet there: topics, baselines, which partitions have started.
What stands is kept, but a topic's number of partitions may rise, and a topic that had no id may
gain one.

KEYS  1 registry
ARGV  1 the store's id, which must stand there
      2 number of topics, then for each: name, id ('': none), number of partitions, and at first
      . number of fields to set where they are not there, then for each: field, value

Answers
  {INSTALLED, {field, value, ...}}  done; what stands there now
  {FORMAT_NEWER, format}   the registry is written in another format
  {LOST, store}            the registry is another's ('' : there is none)
]]
local INSTALLED, LOST, FORMAT_NEWER = 1, 3, 4
local FORMAT = '1'
local stands = redis.call('HMGET', KEYS[1], 'format', 'store')
if stands[1] and stands[1] ~= FORMAT then return {FORMAT_NEWER, stands[1]} end
if stands[2] ~= ARGV[1] then return {LOST, stands[2] or ''} end
local topics = tonumber(ARGV[2])
for i = 3, 2 + 4 * topics, 4 do
  local id_field, count_field = 'topic:' .. ARGV[i], 'partitions:' .. ARGV[i]
  local topic = redis.call('HMGET', KEYS[1], id_field, count_field)
  local id, count = topic[1] or '', tonumber(topic[2] or '') or 0
  if id == '' and id ~= ARGV[i + 1] or not topic[1] then
    redis.call('HSET', KEYS[1], id_field, ARGV[i + 1])
    id = ARGV[i + 1]
  end
  -- More partitions of another incarnation say nothing about this one.
  if id == ARGV[i + 1] and tonumber(ARGV[i + 2]) > count then
    redis.call('HSET', KEYS[1], count_field, ARGV[i + 2])
  end
  redis.call('HSETNX', KEYS[1], 'first:' .. ARGV[i], ARGV[i + 3])
end
local at = 3 + 4 * topics
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do
  redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1])
end
return {INSTALLED, redis.call('HGETALL', KEYS[1])}
