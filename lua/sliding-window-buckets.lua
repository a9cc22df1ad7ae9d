-- sliding-window-buckets: the window is cut into `extra` buckets (10 if not given). A window that ends now
-- touches that many whole buckets and one at its far edge, which is counted whole: so no true window ever
-- holds more than the limit, and units come free at most one bucket late.
--
-- State: { number of the current bucket, units in it, in the one before, … back to the one at the edge }
local slidingWindowBuckets = { code = 3 }

local function bucketMs(windowMs, extra)
  return math.ceil(windowMs / (extra or 10))
end

function slidingWindowBuckets.advance(state, now, limit, windowMs, extra)
  local kept = (extra or 10) + 1
  local number = math.floor(now / bucketMs(windowMs, extra))
  -- A bucket ahead of now comes from a clock that went back: it stays the current one, unless that is by
  -- more than the window.
  local known = state[kept + 1] and state[1] - number <= kept
  local steps = known and math.max(0, number - state[1]) or kept
  if steps > 0 then
    for i = kept + 1, 2, -1 do
      state[i] = i - steps >= 2 and state[i - steps] or 0
    end
    state[1] = number
  end
  local used = 0
  for i = 2, kept + 1 do used = used + state[i] end
  return limit - used, limit
end

-- The bucket at place i leaves when the current number has moved on far enough.
local function leavesAt(state, i, windowMs, extra)
  return (state[1] - (i - 2) + (extra or 10) + 1) * bucketMs(windowMs, extra)
end

function slidingWindowBuckets.wait(state, now, limit, windowMs, extra, cost)
  local missing = cost - limit
  for i = 2, #state do missing = missing + state[i] end
  local i = #state + 1
  repeat
    i = i - 1
    missing = missing - state[i]
  until missing <= 0
  return leavesAt(state, i, windowMs, extra) - now
end

function slidingWindowBuckets.charge(state, units, at, now, limit, windowMs, extra)
  local i = 2
  if units < 0 then i = 2 + math.max(0, state[1] - math.floor(at / bucketMs(windowMs, extra))) end
  if state[i] then state[i] = math.max(0, state[i] + units) end
  for place = 2, #state do
    if state[place] > 0 then return leavesAt(state, place, windowMs, extra) end
  end
  return now
end

return slidingWindowBuckets
