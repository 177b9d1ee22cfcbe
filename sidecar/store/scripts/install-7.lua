--[[
Replace a checkpoint by compare-and-swap, with everything that belongs to it, or change nothing.

Everything that could fail is looked at before the first write, because Redis does not undo what a
script wrote before it failed: what stands there, the types of the keys, the rights to the commands.
Out of memory is refused by Redis at the first write, and no more after it.

KEYS  1 checkpoint  2 receipts  3 ahead  4 gaps  5 audit  6 history  7 requests

ARGV  1 attempt
      2 next  3 epoch  4 generation  5 owner     what must stand there; all '': nothing must
      6 next  7 epoch  8 generation  9 owner  10 horizon     what shall stand there
     11 body ('': keep it)  12 gap ('': none; kept too when there is no body)
     13 receipts retained at most  14 and at least
     15 flags: r receipts replace what was kept   w replicas are waited for: always write something
     16 number of runs, then for each: first offset, count, last offset, blob
      . number of receipts ahead, then for each: offset, value
      . number of offsets no longer ahead, then those
      . number of gaps, then for each: id, JSON
      . number of audit entries, then for each: JSON
      . number of requests this answers, then for each: id, JSON
   Numbers are decimal, without sign or leading zero; an epoch may be ''.

Answers
  INSTALLED          it stands
  INSTALLED_BEFORE   this attempt was installed before; nothing was written
  {LOST, ...}        another write won; then the checkpoint that stands, as `read` answers it
  {FORMAT_NEWER, format}   what stands there is written in another format
  {CORRUPT}          there is a checkpoint without a generation
  {DENIED, command}  the right to a command is missing
  {MISPLACED, key, type}   a key holds something else
  {DISORDERED, last} receipts do not follow upon those that are kept
  {STANDS, id}       the request of this id was answered before: its execution came too late
]]
local INSTALLED, INSTALLED_BEFORE, LOST = 1, 2, 3
local FORMAT_NEWER, CORRUPT, DENIED, MISPLACED, DISORDERED = 4, 5, 6, 7, 8
local STANDS = 10

local FORMAT = '1'
local HISTORY_MAX = 32      -- attempts kept
local HISTORY_SLACK = 16    -- and how many more before they are trimmed
local AUDIT_MAX = 1000
local GAPS_MAX = 256        -- gaps kept; the oldest that hold nothing go first
local TRIMS_MAX = 256       -- runs dropped in one call

local checkpoint, receipts, ahead, gaps, audit, history, requests =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local call = redis.call

local kept = call('HMGET', checkpoint, 'format', 'next', 'epoch', 'generation', 'owner',
  'receipts', 'receipts_floor', 'receipts_last')
local replaced = string.find(ARGV[15], 'r', 1, true) ~= nil
local waiting = string.find(ARGV[15], 'w', 1, true) ~= nil
local created = not kept[4]

if created then
  if call('EXISTS', checkpoint) == 1 then return {CORRUPT} end
  if ARGV[4] ~= '' then return {LOST} end
elseif kept[1] ~= FORMAT then
  return {FORMAT_NEWER, kept[1] or ''}
elseif kept[4] ~= ARGV[4] or kept[2] ~= ARGV[2] or kept[3] ~= ARGV[3] or kept[5] ~= ARGV[5] then
  -- A generation is never reached again, so an attempt that is already there cannot match above,
  -- and its history is looked at only here.
  local mark = ARGV[1] .. ' '
  for _, entry in ipairs(call('LRANGE', history, 0, -1)) do
    if string.sub(entry, 1, #mark) == mark then
      if waiting then call('HINCRBY', checkpoint, 'asked_again', 1) end
      return INSTALLED_BEFORE
    end
  end
  local stands = call('HMGET', checkpoint, 'format', 'next', 'epoch', 'generation', 'owner',
    'horizon', 'gap', 'body')
  return {LOST, unpack(stands, 1, 8)}
end

-- Where the lists begin.
local at = 16
local runs_n, runs_at = tonumber(ARGV[at]), at + 1
at = runs_at + 4 * runs_n
local ahead_n, ahead_at = tonumber(ARGV[at]), at + 1
at = ahead_at + 2 * ahead_n
local done_n, done_at = tonumber(ARGV[at]), at + 1
at = done_at + done_n
local gaps_n, gaps_at = tonumber(ARGV[at]), at + 1
at = gaps_at + 2 * gaps_n
local audit_n, audit_at = tonumber(ARGV[at]), at + 1
at = audit_at + audit_n
local requests_n, requests_at = tonumber(ARGV[at]), at + 1

-- Nothing below may fail half way.
local function check(key, kind, ...)
  local found = call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then return {MISPLACED, key, found} end
  if redis.acl_check_cmd then
    for _, command in ipairs({...}) do
      if not redis.acl_check_cmd(unpack(command)) then return {DENIED, command[1]} end
    end
  end
end
local refusal = check(history, 'list', {'RPUSH', history, ''}, {'LTRIM', history, '0', '1'},
  {'HSET', checkpoint, '', ''})
if not refusal and (runs_n > 0 or replaced or created) then
  refusal = check(receipts, 'stream', {'XADD', receipts, '*', '', ''},
    {'XDEL', receipts, '0-1'}, {'XRANGE', receipts, '-', '+'}, {'DEL', receipts})
end
if not refusal and ahead_n + done_n > 0 then
  refusal = check(ahead, 'hash', {'HSET', ahead, '', ''}, {'HDEL', ahead, ''})
end
if not refusal and gaps_n > 0 then
  refusal = check(gaps, 'hash', {'HSET', gaps, '', ''}, {'HDEL', gaps, ''}, {'HLEN', gaps},
    {'HGETALL', gaps})
end
if not refusal and audit_n > 0 then
  refusal = check(audit, 'stream', {'XADD', audit, '*', '', ''})
end
if not refusal and requests_n > 0 then
  refusal = check(requests, 'hash', {'HSET', requests, '', ''})
end
if refusal then return refusal end

if not (created or replaced) and runs_n > 0
  and tonumber(ARGV[runs_at]) <= (tonumber(kept[8] or '') or -1) then
  return {DISORDERED, kept[8]}
end

-- Whoever asked was told what became of it. A write that was on its way meanwhile does not turn a
-- refusal into a deed.
for i = requests_at, requests_at + 2 * requests_n - 1, 2 do
  local asked = call('HMGET', requests, ARGV[i])[1]
  local read, request = pcall(cjson.decode, asked or '{"state":"pending"}')
  if not read or type(request) ~= 'table' or request.state ~= 'pending' then
    return {STANDS, ARGV[i]}
  end
end

local function advance()
  call('HSET', checkpoint, 'format', FORMAT, 'next', ARGV[6], 'epoch', ARGV[7],
    'generation', ARGV[8], 'owner', ARGV[9], 'horizon', ARGV[10])
  if ARGV[11] ~= '' then call('HSET', checkpoint, 'body', ARGV[11], 'gap', ARGV[12]) end
end

local count, floor, last = tonumber(kept[6] or '') or 0, kept[7] or '', kept[8] or ''
if created or replaced then
  advance()
  count, floor, last = 0, '', ''
  call('DEL', receipts, ahead)
  if created then call('DEL', history) end
end
-- The first entry is one that the stream may still refuse (somebody else wrote into it, or Redis is
-- out of memory), and then nothing was written yet.
for run = 0, runs_n - 1 do
  local i = runs_at + 4 * run
  local added = redis.pcall('XADD', receipts, ARGV[i] .. '-' .. ARGV[i + 1], 'd', ARGV[i + 3])
  if type(added) == 'table' and added.err then
    if string.find(added.err, 'equal or smaller', 1, true) then
      return {DISORDERED, added.err}
    end
    return added
  end
  count = count + tonumber(ARGV[i + 1])
  if floor == '' then floor = ARGV[i] end
  last = ARGV[i + 2]
end
if not (created or replaced) then advance() end

if runs_n > 0 or replaced or created then
  local most, least = tonumber(ARGV[13]), tonumber(ARGV[14])
  for _ = 1, TRIMS_MAX do
    if count <= most then break end
    local oldest = call('XRANGE', receipts, '-', '+', 'COUNT', 2)
    if #oldest < 2 then break end
    local rest = count - tonumber(string.match(oldest[1][1], '%d+$'))
    if rest < least then break end
    call('XDEL', receipts, oldest[1][1])
    count, floor = rest, string.match(oldest[2][1], '^%d+')
  end
  call('HSET', checkpoint, 'receipts', string.format('%.0f', count), 'receipts_floor', floor,
    'receipts_last', last)
end

for i = ahead_at, ahead_at + 2 * ahead_n - 1, 2 do call('HSET', ahead, ARGV[i], ARGV[i + 1]) end
for i = done_at, done_at + done_n - 1 do call('HDEL', ahead, ARGV[i]) end

if gaps_n > 0 then
  for i = gaps_at, gaps_at + 2 * gaps_n - 1, 2 do call('HSET', gaps, ARGV[i], ARGV[i + 1]) end
  if call('HLEN', gaps) > GAPS_MAX then
    local all, settled, total = call('HGETALL', gaps), {}, 0
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 1) ~= '+' then
        total = total + 1
        local read, gap = pcall(cjson.decode, all[i + 1])
        if read and (gap.state == 'resolved' or gap.state == 'superseded') then
          settled[#settled + 1] = {all[i], tonumber(gap.opened_at) or 0}
        end
      end
    end
    table.sort(settled, function(a, b)
      return a[2] < b[2] or (a[2] == b[2] and a[1] < b[1])
    end)
    for i = 1, math.min(total - GAPS_MAX, #settled) do
      call('HDEL', gaps, settled[i][1], '+' .. settled[i][1])
    end
  end
end

for i = audit_at, audit_at + audit_n - 1 do
  call('XADD', audit, 'MAXLEN', '~', AUDIT_MAX, '*', 'j', ARGV[i])
end

for i = requests_at, requests_at + 2 * requests_n - 1, 2 do
  call('HSET', requests, ARGV[i], ARGV[i + 1])
end

local entry = ARGV[1] .. ' ' .. ARGV[8] .. ' ' .. ARGV[6] .. ' ' .. ARGV[9]
if call('RPUSH', history, entry) > HISTORY_MAX + HISTORY_SLACK then
  call('LTRIM', history, -HISTORY_MAX, -1)
end
return INSTALLED
