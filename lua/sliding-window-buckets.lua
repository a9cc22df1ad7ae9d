-- sliding-window-buckets: the window is cut into `extra` buckets (10 if not given). A window that ends now
-- touches that many buckets and one more at its far edge, which is counted whole: so no true window ever
-- holds more than the limit, and units come free at most one bucket late.
--
-- State: number of the current bucket; units in it, in the one before, … back to the edge (MessagePack).
local function bucketMs(windowMs, extra)
  return math.ceil(windowMs / (extra or 10))
end

-- The current bucket, all that the window can touch before it, and the one at the edge.
local function keptBuckets(windowMs, extra)
  return math.ceil(windowMs / bucketMs(windowMs, extra)) + 1
end

local function leavesAt(number, place, windowMs, extra)
  return (number - place + 1 + keptBuckets(windowMs, extra)) * bucketMs(windowMs, extra)
end

local function read(now, limit, windowMs, extra, cost, number, packed)
  local kept = keptBuckets(windowMs, extra)
  local current = math.floor(now / bucketMs(windowMs, extra))
  local stored = number and { cmsgpack.unpack(packed) } or {}
  -- A bucket ahead of now comes from a clock that went back: it stays the current one, unless that is by
  -- more than the window.
  local known = #stored == kept and number - current <= kept
  local steps = known and math.max(0, current - number) or kept
  local units, used = {}, 0
  for place = 1, kept do
    units[place] = stored[place - steps] or 0
    used = used + units[place]
  end
  number = known and math.max(number, current) or current

  local wait = false
  if used + cost > limit and cost <= limit then
    local missing, place = used + cost - limit, kept + 1
    repeat
      place = place - 1
      missing = missing - units[place]
    until missing <= 0
    wait = leavesAt(number, place, windowMs, extra) - now
  end
  return limit - used, limit, wait, number, cmsgpack.pack(unpack(units))
end

local function charge(units, at, now, limit, windowMs, extra, number, packed)
  local stored = { cmsgpack.unpack(packed) }
  -- What comes afterwards (a refund, a settlement) moves only the bucket of the charge, if it is kept.
  local place = at and 1 + number - math.floor(at / bucketMs(windowMs, extra)) or 1
  if stored[place] then stored[place] = math.max(0, stored[place] + units) end
  packed = cmsgpack.pack(unpack(stored))
  for newest = 1, #stored do
    if stored[newest] > 0 then return leavesAt(number, newest, windowMs, extra), number, packed end
  end
  return now, number, packed
end

-- The newest first, but none that is newer than what the other region has charged.
local function relieve(relief, since, fullLimit, now, limit, windowMs, extra, number, packed)
  local stored = { cmsgpack.unpack(packed) }
  for place = math.max(1, 1 + number - math.floor(since / bucketMs(windowMs, extra))), #stored do
    local taken = math.min(relief, stored[place])
    stored[place], relief = stored[place] - taken, relief - taken
  end
  return number, cmsgpack.pack(unpack(stored))
end

return read, charge, relieve
