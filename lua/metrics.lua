#!lua flags=allow-key-locking
-- metrics: adds the counts of an isolate to the sums of its region. A batch that arrives twice is added once.
--
-- KEYS   [1] the sums, a hash: a field for each series  [2] the last report of this isolate
-- ARGV   [1] number of the batch  [2] the rest of the isolate's report  [3] TTL of KEYS[2] in ms
--        [4] the time in ms  [5] TTL of the sums in ms  [6] maximum number of fields in the hash
--        [7] how many of the first series are always kept; then for each series its field and the amount
-- reply  the positions of the series that were refused because the hash is full: 1 is the first one
local DAY_MS, FIRST, RENEWED = 86400000, 8, 'renewed'
-- gopher-lua can hold only some thousand values at once.
local MAX_SERIES = 200
if #ARGV > FIRST - 1 + 2 * MAX_SERIES then return redis.error_reply('WEIR_BAD_ARGUMENT too many series') end
-- Reads the sums before the batch counts as added: if that fails, the next call adds it.
local fields = {RENEWED}
for i = FIRST, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
local sums = redis.call('HMGET', KEYS[1], unpack(fields, 1, #fields))

local batch = ARGV[1] .. ' '
local last = redis.call('SET', KEYS[2], batch .. ARGV[2], 'PX', ARGV[3], 'GET')
if last and string.sub(last, 1, #batch) == batch then return {} end

local isFull = nil
local refused, changes = {}, {}
for i = 2, #fields do
  local isKept = sums[i] or i - 1 <= tonumber(ARGV[7])
  if not isKept then
    if isFull == nil then isFull = redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[6]) end
    isKept = not isFull
  end
  if isKept then
    local amount = tonumber(ARGV[FIRST + 2 * (i - 2) + 1])
    changes[#changes + 1] = fields[i]
    changes[#changes + 1] = string.format('%.0f', (tonumber(sums[i] or '0') or 0) + amount)
  else
    refused[#refused + 1] = i - 1
  end
end

-- The TTL is renewed once a day, so that the sums of an unused region expire.
local isDue = tonumber(ARGV[4]) - (tonumber(sums[1] or '0') or 0) >= DAY_MS
if isDue then
  changes[#changes + 1] = RENEWED
  changes[#changes + 1] = ARGV[4]
end
if #changes > 0 then redis.call('HSET', KEYS[1], unpack(changes, 1, #changes)) end
if isDue then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
return refused
