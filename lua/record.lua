-- record: finds the counter in the key's text, or the record of its transfer.

-- The record is in `source`, from the semicolon at `place` to `last`. Records are mostly in the order of the checks, so
-- the search starts where the record before has ended.
local place, letterAt = find(text, counter, from, true)
local source, blockedUntil = text, 0
local fields, last, changesAt, reset, expiryBefore, isBehind
-- The record is dropped or damaged, so the script must look up when the key's other counters expire.
local isLost
-- The region that counts instead of this one, and until when.
local owner, transferredUntil, usableUntil, isWanted
-- The usual case: a take that passes, of a counter that exists. It skips all other questions.
local isUsual = isTake
if place then
  fields = letterAt + 1
else
  -- A name found in the text is valid, because only valid names are stored. Only its colon must be checked.
  if not find(counter, '^;[%w_-]+:.$') then
    return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': an id must have letters, digits, - or _' }
  end
  isUsual = false
end
if not place and (#text > HEADER or size > 0) then
  -- A record out of order is in the new text already. The id alone also finds a blocked counter, one that was transferred, or
  -- one of another algorithm.
  local id = sub(counter, 1, -2)
  local at, colon = find(text, id, from, true)
  if not at and size > 0 then
    local done = table.concat(pieces, '', 1, size)
    pieces = { done }
    size = 1
    local before, past = find(done, id, 1, true)
    source = done .. ';'
    isBehind = true
    at = before
    colon = past
  end
  if at then
    place = at
    local letter = byte(source, colon + 1)
    local _, past, kind, untilText, usableText, name = find(source, '^([mn])(%d+) (%d+) ([%l%d-]+);', colon + 1)
    if letter == code then
      fields = colon + 2
    elseif letter == code - CAPITAL then
      local _, space, endText = find(source, '^(%d+) ', colon + 2)
      blockedUntil = (endText or 0) * 1
      fields = (space or colon) + 1
    elseif past and #untilText < 16 and #usableText < 16 then
      last = past - 1
      transferredUntil = untilText * 1
      expiryBefore = transferredUntil
      usableUntil = usableText * 1
      owner = transferredUntil > now and name
      isWanted = kind == 'n'
    else
      last = (find(source, ';', colon, true) or #source + 1) - 1
      isLost = true
    end
  end
end
