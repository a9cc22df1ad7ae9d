-- call: reads the operation, the columns of the checks, the clock, and the values of the keys.

local operation, width = ARGV[1], 3
local isTake = operation == 'take'
local now, given, isAfterwards, isTransfer
if not isTake then
  local words = operation or ''
  local clockAt = find(words, ' now=', 1, true)
  if clockAt then
    now = tonumber(sub(words, clockAt + 5)) or 0
    local others = sub(words, 1, clockAt - 1)
    words = others
  end
  local _, _, word, digits = find(words, '^(%l+) ?([01]*)$')
  operation = word
  given = digits
  isTake = word == 'take'
  isAfterwards = word == 'refund' or word == 'settle'
  isTransfer = word == 'transfer' or word == 'recall'
end
-- The position of each optional column, counted from the first column of a check.
local keyAt, costAt, extraAt, wantAt, blockAt, flagsAt, atAt, seatAt, ownerAt, bordersAt
if given and given ~= '' then
  local ONE = 49
  local hasKey, hasCost, hasExtra, hasWant, hasBlock, hasFlags, hasAt, hasSeat, hasOwner, hasBorders = byte(given, 1, 10)
  if hasKey == ONE then keyAt = width width = width + 1 end
  if hasCost == ONE then costAt = width width = width + 1 end
  if hasExtra == ONE then extraAt = width width = width + 1 end
  if hasWant == ONE then wantAt = width width = width + 1 end
  if hasBlock == ONE then blockAt = width width = width + 1 end
  if hasFlags == ONE then flagsAt = width width = width + 1 end
  if hasAt == ONE then atAt = width width = width + 1 end
  if hasSeat == ONE then seatAt = width width = width + 1 end
  if hasOwner == ONE then ownerAt = width width = width + 3 end
  if hasBorders == ONE then bordersAt = width width = width + 1 end
end
local count, hasRareColumns = (#ARGV - 1) / width, atAt or seatAt or ownerAt or not isTake
local hasOptions = width > 3 or not isTake
if count < 1 or count % 1 ~= 0 then
  return { err = 'WEIR_BAD_ARGUMENT expected 1 argument and ' .. width .. ' for each check' }
end
if count > 500 then return { err = 'WEIR_BAD_ARGUMENT more than 500 checks' } end
if not isTake and not isAfterwards and not isTransfer and operation ~= 'peek' and operation ~= 'renew' then
  return { err = 'WEIR_BAD_ARGUMENT unknown operation' }
end
if #KEYS > 100 then return { err = 'WEIR_BAD_ARGUMENT more than 100 keys' } end
-- Whether written keys may keep their TTL. Not with a clock injected by a test: TTLs follow the server's clock.
local keepsTtl = not now
if not now then
  -- Arithmetic turns plain digits into numbers, here and below: tonumber costs three times as much.
  local time = call('TIME')
  local millis = time[2] / 1000
  now = time[1] * 1000 + (millis - millis % 1)
elseif not (now >= 1 and now <= LATEST and now % 1 == 0) then
  return { err = 'WEIR_BAD_ARGUMENT now must be a whole number above 0' }
end

-- State of the current key:
--   text     its old value
--   size     how many pieces of the new value there are
--   from     the position from which the old value has not been copied yet
--   newest   the latest expiry among the changed counters; INFINITY if one now expires earlier than before, so that the
--            script must look at all of them
--   covered  the latest expiry among the charged counters that keep their expiry: the key lives at least that long
-- If there are several keys, tables keep this state while another key is current. Most calls have one key and need no
-- tables: a table costs as much as twenty steps. The pieces are joined once, because Redis hashes every string that Lua
-- makes.
local key, text, size, from, newest, covered = 1, EMPTY, 0, 1, 0, 0
local pieces, texts, others
if KEYS[2] then
  texts = call('MGET', unpack(KEYS))
  for each = 1, #KEYS do
    if sub(texts[each] or '', 16, HEADER) ~= FORMAT then texts[each] = EMPTY end
  end
  others = {}
  text = texts[1]
elseif KEYS[1] then
  -- A key of another type counts as no state: GET raises an error for it, which pcall returns as a table.
  local value = redis.pcall('GET', KEYS[1])
  if type(value) == 'string' and sub(value, 16, HEADER) == FORMAT then text = value end
else
  text = nil
  hasOptions = true
end
