-- sliding-window-buckets: the window is cut into `extra` buckets (10 if not given). A window that ends now
-- touches that many buckets and one more at its far edge, which is counted whole: so no true window ever
-- holds more than the limit, and units come free at most one bucket late.
--
-- State: number of the current bucket; units in it, in the one before, and so on back to the edge.

--@letter b
--@state number countsText

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

local function fromText(text)
  local counts = {}
  for count in string.gmatch(text, '%d+') do counts[#counts + 1] = tonumber(count) end
  return counts
end

-- There are 101 counts at most.
local function toText(counts)
  local texts = {}
  for place = 1, #counts do texts[place] = string.format('%.0f', counts[place]) end
  return table.concat(texts, ',', 1, #texts)
end

local function read(now, limit, windowMs, extra, cost, number, countsText)
  local kept = keptBuckets(windowMs, extra)
  local current = math.floor(now / bucketMs(windowMs, extra))
  local stored = number and fromText(countsText) or {}
  -- A bucket ahead of now means that the clock went back. The bucket stays the current one, unless the clock
  -- went back by more than the window.
  local known = #stored == kept and number - current <= kept
  local steps = known and math.max(0, current - number) or kept
  local counts, used = {}, 0
  for place = 1, kept do
    counts[place] = stored[place - steps] or 0
    used = used + counts[place]
  end
  number = known and math.max(number, current) or current

  local wait = false
  if used + cost > limit and cost <= limit then
    local missing, place = used + cost - limit, kept + 1
    repeat
      place = place - 1
      missing = missing - counts[place]
    until missing <= 0
    wait = leavesAt(number, place, windowMs, extra) - now
  end
  return limit - used, limit, wait, number, toText(counts)
end

local function charge(units, at, now, limit, windowMs, extra, number, countsText)
  local counts = fromText(countsText)
  -- A refund or a settlement changes only the bucket of the charge, if it is still kept.
  local place = at and 1 + number - math.floor(at / bucketMs(windowMs, extra)) or 1
  if counts[place] then counts[place] = math.max(0, counts[place] + units) end
  countsText = toText(counts)
  for newest = 1, #counts do
    if counts[newest] > 0 then return leavesAt(number, newest, windowMs, extra), number, countsText end
  end
  return now, number, countsText
end

return read, charge
