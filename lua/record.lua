-- record: finds what the key's text has of the counter, or of what it was ceded to.

-- Its record: in `source` from the semicolon at `place` to `last`. Records are mostly in the order of the checks, so
-- it is searched for from where the one before has ended.
local place, letterAt = find(text, counter, from, true)
local source, blockedUntil = text, 0
local fields, last, changesAt, reset, expiryBefore, isBehind
-- It goes, or was not whole: when the key's other counters expire must be looked up.
local isLost
-- Where it is counted until when, if not here.
local home, cededUntil, usableUntil, isWanted
-- A take that passes, by a counter that is there: the usual, for which nothing else is asked.
local isUsual = isTake
if place then
  fields = letterAt + 1
else
  isUsual = false
end
if not place and (#text > HEADER or size > 0) then
  -- Out of order, it is in the new text. Under its id alone there can be a blocked counter, one that was ceded, or
  -- another algorithm's.
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
      cededUntil = untilText * 1
      expiryBefore = cededUntil
      usableUntil = usableText * 1
      home = cededUntil > now and name
      isWanted = kind == 'n'
    else
      last = (find(source, ';', colon, true) or #source + 1) - 1
      isLost = true
    end
  end
end
