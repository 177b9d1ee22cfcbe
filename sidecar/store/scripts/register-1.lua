--[[
Add to a group's registry what is not yet there: topics, baselines, which partitions have started.
What stands is kept, but a topic's number of partitions may rise, a topic that had no id may gain
one, and a topic that was created again takes the place of the one before: its partitions that have
not started begin where the new one says. It does so only upon what stands there: judged upon
another id, the answer may be the older one, and one without an id may be of either.

KEYS  1 registry
ARGV  1 the store's id, which must stand there
      2 number of topics, then for each: name, id ('': none), number of partitions, and at first,
        and the id that stood there when this was judged ('': none)
      . number of fields to set where they are not there, then for each: field, value

Answers
  {INSTALLED, {field, value, ...}}  done; what stands there now
  {FORMAT_NEWER, format}   the registry is written in another format
  {LOST, store}            the registry is another's ('' : there is none)
]]
local INSTALLED, LOST, FORMAT_NEWER = 1, 3, 4
local FORMAT = '1'
local head = redis.call('HMGET', KEYS[1], 'format', 'store')
if head[1] and head[1] ~= FORMAT then return {FORMAT_NEWER, head[1]} end
if head[2] ~= ARGV[1] then return {LOST, head[2] or ''} end
local topics, again, stale = tonumber(ARGV[2]), {}, {}
for i = 3, 2 + 5 * topics, 5 do
  local name, id, partitions, first = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local kept = redis.call('HMGET', KEYS[1], 'topic:' .. name, 'partitions:' .. name)
  local count, stands = tonumber(kept[2] or '') or 0, kept[1] or ''
  if not kept[1] or (stands == '' and id ~= '') then
    redis.call('HSET', KEYS[1], 'topic:' .. name, id)
    redis.call('HSETNX', KEYS[1], 'first:' .. name, first)
    stands = id
  elseif stands ~= id then
    stale[name] = id == '' or stands ~= ARGV[i + 4]
    if not stale[name] then
      again[name] = true
      redis.call('HSET', KEYS[1], 'topic:' .. name, id, 'first:' .. name, first)
      stands, count = id, 0
    end
  end
  -- More partitions of another incarnation say nothing about this one.
  if stands == id and tonumber(partitions) > count then
    redis.call('HSET', KEYS[1], 'partitions:' .. name, partitions)
  end
end
local at = 3 + 5 * topics
for i = at + 1, at + 2 * tonumber(ARGV[at]), 2 do
  local field, value = ARGV[i], ARGV[i + 1]
  local topic, index = string.match(field, '^baseline:(.*)/(%d+)$')
  if not (topic and stale[topic]) then
    if topic and again[topic]
      and not redis.call('HMGET', KEYS[1], 'started:' .. topic .. '/' .. index)[1] then
      redis.call('HSET', KEYS[1], field, value)
    else
      redis.call('HSETNX', KEYS[1], field, value)
    end
  end
end
return {INSTALLED, redis.call('HGETALL', KEYS[1])}
