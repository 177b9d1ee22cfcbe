--[[
Answer a request that changes no checkpoint (a refusal, a look): once, and only by whoever is the
owner. An answer that comes with a change is part of its `install`.

KEYS  1 checkpoint  2 requests  3 audit
ARGV  1 id  2 JSON  3 audit entry's JSON  4 the owner that must stand in the checkpoint ('': no
      checkpoint must)

Answers
  {INSTALLED}              it is answered
  {STANDS, JSON}           it was answered before, like this
  {LOST}                   there is no such request, or somebody else is the owner
  {CORRUPT}                the request cannot be read
  {DENIED, command}        the right to a command is missing
]]
local INSTALLED, LOST, CORRUPT, DENIED, STANDS = 1, 3, 5, 6, 10
local AUDIT_MAX = 1000
local call = redis.call
local stands = call('HMGET', KEYS[2], ARGV[1])[1]
if not stands then return {LOST} end
local read, request = pcall(cjson.decode, stands)
if not read or type(request) ~= 'table' then return {CORRUPT} end
if request.state ~= 'pending' then return {STANDS, stands} end
local owner = call('HMGET', KEYS[1], 'owner')[1] or ''
if owner ~= ARGV[4] then return {LOST} end
if redis.acl_check_cmd then
  if not redis.acl_check_cmd('HSET', KEYS[2], '', '') then return {DENIED, 'HSET'} end
  if not redis.acl_check_cmd('XADD', KEYS[3], '*', '', '') then return {DENIED, 'XADD'} end
end
call('HSET', KEYS[2], ARGV[1], ARGV[2])
call('XADD', KEYS[3], 'MAXLEN', '~', AUDIT_MAX, '*', 'j', ARGV[3])
return {INSTALLED}
