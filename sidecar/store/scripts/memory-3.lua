--[[
The newest receipts, as whole runs, and those ahead, as they stand at one moment.

KEYS  1 checkpoint  2 receipts  3 ahead
ARGV  1 how many receipts at least, where so many are kept

Answers
  {1 when nothing older is kept, else 0,  {id, blob, id, blob, ...} newest first,
   {offset, value, ...} ahead, the owner that stands in the checkpoint, '': none}
]]
local least, count, whole = tonumber(ARGV[1]), 0, 1
local runs, last, step = {}, '+', 1
while true do
  local entries = redis.call('XREVRANGE', KEYS[2], last, '-', 'COUNT', step)
  if #entries == 0 then break end
  local enough = false
  for _, entry in ipairs(entries) do
    if count >= least then
      enough = true
      break
    end
    runs[#runs + 1] = entry[1]
    runs[#runs + 1] = entry[2][2]
    count = count + tonumber(string.match(entry[1], '%d+$'))
    last = '(' .. entry[1]
  end
  if enough then
    whole = 0
    break
  end
  step = math.min(step * 2, 64)
end
local owner = redis.call('HMGET', KEYS[1], 'owner')[1] or ''
return {whole, runs, redis.call('HGETALL', KEYS[3]), owner}
