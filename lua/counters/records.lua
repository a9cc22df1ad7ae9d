-- records: the value of a key as its records, and back.
--
-- A key's value is text: the epoch ms at which the key expires, in 15 digits; FORMAT, whose semicolon begins the first
-- record; the records of its counters; a semicolon.
-- A record is
--   the counter as in ARGV, then its state, which begins with the moment at which it is free again; while it is
--   blocked, its letter is a capital, and the end of the block comes before the state
-- A counter that was transferred has this instead; docs/regions.md explains why:
--   ';', id, ':', m (n if this region wants it back), epoch ms until which nothing is counted here, epoch ms until
--   which the owner may use this part, owner
-- So no algorithm has the letter m or n, and none ever gets a letter that another one has had.
-- A value that does not have this form counts as no state, and neither does a record with a time after LATEST. A key always has a TTL: a whole value is written with it, or
-- the key keeps it. docs/decisions explains why the value is text.
local FORMAT, EMPTY, HEADER = ' weir3;', '000000000000000 weir3;', 22
-- A region transfers a counter this long after its last charge stopped counting. By then that charge is over by every
-- other region's clock, too, and a caller between two requests does not look idle. Keys live this much longer.
local IDLE_MS = 5000
-- Records beyond this are dropped, those first that expire first. The rules in force have at most 320 in a key
-- (src/core/counting/keys.ts), so the others are of rules that have changed. A shorter text has fewer records.
local MAX_RECORDS, LONG = 500, 8192

-- The keys of the call: their texts; `expires`, by the header; `newest`, the latest expiry of what has changed;
-- `isChanged`; `mustLook`, if a counter expires earlier than before or the header is damaged, so that only a look at all
-- counters tells when the key may expire; `after`, where the record of the next check belongs.
-- The straight part may have read the value of the only key already.
local function readKeys(value)
  local values, keys = {}, {}
  if #KEYS > 1 then
    values = redis.call('MGET', unpack(KEYS))
  elseif value then
    values = { value }
  else
    -- A key of another type counts as no state: GET raises an error for it, which pcall returns as a table.
    values = { redis.pcall('GET', KEYS[1]) }
  end
  for i = 1, #KEYS do
    local text = type(values[i]) == 'string' and values[i] or ''
    if string.sub(text, 16, HEADER) ~= FORMAT then text = EMPTY end
    local _, _, header = string.find(text, '^(%d+) ')
    local expires = timeOf(header)
    local isDamaged = expires == 0 and text ~= EMPTY
    keys[i] = {
      text = text, expires = expires, newest = 0, isChanged = false, mustLook = isDamaged, after = HEADER,
    }
  end
  return keys
end

-- The record of the counter, and what it says; nil if there is none.
local function findRecord(key, check, now)
  local text = key.text
  local place, colon = string.find(text, string.sub(check.counter, 1, -2), 1, true)
  if not place then return nil end
  local past = string.find(text, ';', colon + 1, true)
  local last = (past or #text + 1) - 1
  local record = { name = string.sub(text, place, colon), size = last - place + 1, blockedUntil = 0, expiry = 0 }
  local letter, body = string.sub(text, colon + 1, colon + 1), string.sub(text, colon + 2, last)
  if not past then return record end
  if letter == 'm' or letter == 'n' then
    local _, _, untilText, usableText, owner = string.find(body, '^(%d+) (%d+) ([%l%d-]+)$')
    local untilMs, usableUntil = timeOf(untilText), timeOf(usableText)
    if untilMs > 0 and usableUntil > 0 then
      record.isTransfer = true
      record.expiry = untilMs
      record.usableUntil = usableUntil
      record.owner = record.expiry > now and owner or nil
      record.isWanted = letter == 'n'
    end
    return record
  end
  if letter == string.upper(check.letter) then
    local _, space, untilText = string.find(body, '^(%d+) ')
    record.blockedUntil = timeOf(untilText)
    body = string.sub(body, (space or #body) + 1)
  elseif letter ~= check.letter then
    return record
  end
  local algorithm = algorithmOf(check.letter)
  local _, _, digits = string.find(body, '^(%d+)')
  local reset = timeOf(digits)
  if reset > 0 then record.state = algorithm.parse(body, check) end
  if record.state then
    record.expiry = math.max(reset, record.blockedUntil)
  else
    record.blockedUntil = 0
  end
  return record
end

-- Where the record is now: records before it may have changed.
local function findAgain(key, record)
  local place = string.find(key.text, record.name, 1, true)
  return place
end

-- Puts the new text of a record in place of the old one; '' removes it. Records stand in the order of the checks, so that
-- the straight part finds each behind the one before: a new one, or one that is out of order, goes behind that. The text
-- replaces what is from `place` to `last`: with `last` before `place`, nothing.
local function putRecord(key, record, text, expiry)
  local place, last = key.after, key.after - 1
  if record then
    local moved = findAgain(key, record)
    if moved >= key.after then
      place = moved
      last = moved + record.size - 1
    else
      key.text = string.sub(key.text, 1, moved - 1) .. string.sub(key.text, moved + record.size)
      place = key.after - record.size
      last = place - 1
    end
    if not (record.state or record.isTransfer) or text == '' then key.mustLook = true end
  end
  key.text = string.sub(key.text, 1, place - 1) .. text .. string.sub(key.text, last + 1)
  if string.sub(key.text, -1) ~= ';' then key.text = key.text .. ';' end
  key.after = place + #text
  key.isChanged = true
  if expiry > key.newest then key.newest = expiry end
end

-- When a record expires; 0 if it is damaged.
local function expiryOf(text, from)
  local _, _, letter, first, second = string.find(text, '^;[%w_-]+:(%a)(%d+) (%d*)', from)
  local expiry = timeOf(first)
  -- A capital letter means that the end of a block precedes the expiry of the counter.
  if letter and letter < 'a' then expiry = math.max(expiry, timeOf(second)) end
  return expiry
end

-- The records that had not expired by that moment, and when the last of them does (0 if there is none).
local function liveRecords(text, expiredBy)
  local records, expiries, from = {}, {}, HEADER
  while from < #text do
    local past, expiry = string.find(text, ';', from + 1, true) or #text + 1, expiryOf(text, from)
    if expiry > expiredBy then
      records[#records + 1] = string.sub(text, from, past - 1)
      expiries[#expiries + 1] = expiry
    end
    from = past
  end
  while #records > MAX_RECORDS do
    local first = 1
    for i = 2, #expiries do
      if expiries[i] < expiries[first] then first = i end
    end
    table.remove(records, first)
    table.remove(expiries, first)
  end
  -- Joins a hundred at a time, because a long list does not fit on every server's stack.
  local live, newest = '', 0
  for first = 1, #records, 100 do
    live = live .. table.concat(records, '', first, math.min(first + 99, #records))
  end
  for i = 1, #expiries do newest = math.max(newest, expiries[i]) end
  return live .. ';', newest
end

-- The new text of a key that has changed, and its expiry, IDLE_MS after that of its last counter or a little later.
local function textAndExpiry(key, now)
  local live, newest, expires = string.sub(key.text, HEADER), key.newest, key.expires
  if key.mustLook or #key.text > LONG then
    local kept, last = liveRecords(key.text, now - IDLE_MS)
    live = kept
    newest = last
    expires = 0
  end
  expires = math.max(expires, newest + IDLE_MS)
  local digits = string.format('%d', expires)
  return string.sub(EMPTY, 1, 15 - #digits) .. digits .. string.sub(FORMAT, 1, -2) .. live, expires
end

-- Writes the keys that have changed. All texts are there before the first one is written.
local function writeKeys(keys, now)
  for i = 1, #keys do
    local key = keys[i]
    if key.isChanged then
      local text, expires = textAndExpiry(key, now)
      key.newText = text
      key.expires = expires
    end
  end
  for i = 1, #keys do
    local key = keys[i]
    if key.isChanged and key.expires <= now then
      redis.call('DEL', KEYS[i])
    elseif key.isChanged then
      redis.call('SET', KEYS[i], key.newText, 'PXAT', string.format('%d', key.expires))
    end
  end
end
