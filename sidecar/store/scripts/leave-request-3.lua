--[[
Leave a request beside a partition, for whoever is or becomes its owner. Needs no checkpoint, raises
no generation and keeps the owner, who is told by the counter of requests; where there is no
checkpoint there is no counter, and the requests themselves are looked at.

Its `order` is one more than that of any that is kept, so that those that pend are executed as they
were left, whatever the clocks of those who left them said. Each kind has its own line: requests to replay
wait while a gap stands, and the one that resolves it has to find room. What cannot be read may be of
any kind.

KEYS  1 checkpoint  2 requests  3 audit
ARGV  1 id  2 JSON, an object without `order`  3 audit entry's JSON  4 requests of its kind that may pend  5 requests that are kept

Answers
  {INSTALLED, JSON}        it pends, with its order
  {STANDS, JSON}           one with this id is there already
  {FULL}                   as many of its kind pend as may
  {DENIED, command}        the right to a command is missing
  {MISPLACED, key, type}   a key holds something else
]]
local INSTALLED, DENIED, MISPLACED, STANDS, FULL = 1, 6, 7, 10, 11
local AUDIT_MAX = 1000
local checkpoint, requests, audit = KEYS[1], KEYS[2], KEYS[3]
local call = redis.call

local function check(key, kind, ...)
  local found = call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then return {MISPLACED, key, found} end
  if redis.acl_check_cmd then
    for _, command in ipairs({...}) do
      if not redis.acl_check_cmd(unpack(command)) then return {DENIED, command[1]} end
    end
  end
end
local refusal = check(requests, 'hash', {'HSET', requests, '', ''}, {'HDEL', requests, ''})
  or check(audit, 'stream', {'XADD', audit, '*', '', ''})
  or check(checkpoint, 'hash', {'HINCRBY', checkpoint, 'requests', '1'})
if refusal then return refusal end

local kind = cjson.decode(ARGV[2]).kind
local all, settled, pending, total, order = call('HGETALL', requests), {}, 0, 0, 0
for i = 1, #all, 2 do
  if all[i] == ARGV[1] then return {STANDS, all[i + 1]} end
  total = total + 1
  local read, request = pcall(cjson.decode, all[i + 1])
  read = read and type(request) == 'table'
  if read then order = math.max(order, tonumber(request.order) or 0) end
  if read and request.state ~= 'pending' then
    settled[#settled + 1] = {all[i], tonumber(request.settled_at) or 0}
  elseif not read or request.kind == nil or request.kind == kind then
    pending = pending + 1
  end
end
if pending >= tonumber(ARGV[4]) then return {FULL} end

local ordered = string.format('%s,"order":%.0f}', string.sub(ARGV[2], 1, -2), order + 1)
call('HSET', requests, ARGV[1], ordered)
table.sort(settled, function(a, b)
  return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1])
end)
for i = 1, math.min(total + 1 - tonumber(ARGV[5]), #settled) do
  call('HDEL', requests, settled[i][1])
end
call('XADD', audit, 'MAXLEN', '~', AUDIT_MAX, '*', 'j', ARGV[3])
if call('EXISTS', checkpoint) == 1 then call('HINCRBY', checkpoint, 'requests', 1) end
return {INSTALLED, ordered}
