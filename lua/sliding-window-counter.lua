-- sliding-window-counter: estimates the last `windowMs` from two aligned windows. The previous one counts in
-- proportion to how much of it is still inside: previous * (1 - e/W) + current, where e is the time since the
-- current window began. Exact if the previous window was spread evenly.
--
-- State: units in the current window and in the previous one. `reset` shows where the current window begins:
-- two windows before it, or one if the current window is empty.
-- If the clock went back, time stands still at the start of the window. If it went back by more than a window, counting
-- starts anew. All values are multiplied by W, so that they stay whole numbers.

--@letter c
--@state previous current
--@keeps reset previous
--@local windowStart

--@read
local start = now - now % windowMs
windowStart = reset and current + previous > 0 and reset - (current > 0 and 2 or 1) * windowMs
if not windowStart or windowStart < start - windowMs or windowStart > start + windowMs then
  windowStart = start
  current = 0
  previous = 0
elseif windowStart < start then
  windowStart = start
  previous = current
  current = 0
end
local inside = now > windowStart and windowMs - now + windowStart or windowMs
local weight = previous * inside
local rest = weight % windowMs
room = limit - current - (weight - rest) / windowMs - (rest > 0 and 1 or 0)
capacity = limit
if cost > room and cost <= limit then
  -- The first millisecond at which the cost fits: in this window if its own units leave room, else in the next
  -- window, where the units of this one fade.
  local ends, fading, left = windowStart + windowMs, previous, limit - current - cost
  if left < 0 then
    ends = ends + windowMs
    fading = current
    left = limit - cost
  end
  local product = left * windowMs
  wait = ends - (product - product % fading) / fading - now
end

--@charge
-- A refund or a settlement changes only the window of the charge. Units in the previous window weigh less than
-- their number, so the weight alone would not bound a settlement: it ends at twice the limit.
if not chargedAt or chargedAt >= windowStart and chargedAt < windowStart + windowMs then
  current = current + units
  if current < 0 then current = 0 end
elseif chargedAt < windowStart and chargedAt >= windowStart - windowMs then
  local changed = previous + units
  if units > 0 then changed = math.max(previous, math.min(changed, 2 * limit)) end
  previous = math.max(0, changed)
end
reset = now
if current > 0 then
  reset = windowStart + 2 * windowMs
elseif previous > 0 then
  reset = windowStart + windowMs
end
