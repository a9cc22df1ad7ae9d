-- sliding-window-counter: the last `windowMs` are estimated from two aligned windows. The previous one
-- counts in proportion to how much of it is still inside: previous * (1 - e/W) + current, where e is the
-- time since the current window began. Exact if the previous window was spread evenly.
--
-- State: a, start of the current window (epoch ms); b, units in it; c, units in the previous window.
-- A clock that went back stands at the start of the window; by more than a window, it starts from nothing.
-- Everything is multiplied by W, so that it stays a whole number.

--@read
local start = now - now % windowMs
if not a or a < start - windowMs or a > start + windowMs then
  a, b, c = start, 0, 0
elseif a < start then
  a, b, c = start, 0, b
end
local free = limit * windowMs - c * (now > a and windowMs - now + a or windowMs)
room, capacity = (free - free % windowMs) / windowMs - b, limit
if cost > room and cost <= limit then
  -- The first millisecond at which the cost fits: in this window if what it has used leaves room for the
  -- cost, else in the next one, where this window's units are those that fade.
  local ends, fading, left = a + windowMs, c, limit - b - cost
  if left < 0 then ends, fading, left = ends + windowMs, b, limit - cost end
  wait = ends - math.floor(left * windowMs / fading) - now
end

--@charge
-- What comes afterwards (a refund, a settlement) moves only the window of the charge. A settlement weighs less in
-- the previous window than its units: that alone would not bound them.
if not chargedAt or chargedAt >= a and chargedAt < a + windowMs then
  b = b + units
  if b < 0 then b = 0 end
elseif chargedAt < a and chargedAt >= a - windowMs then
  c = math.max(0, math.min(c + units, 2 * limit))
end
resetAt = b > 0 and a + 2 * windowMs or c > 0 and a + windowMs or now

--@relieve
-- The other region has charged its current window. What is taken off the previous one weighs less and fades: so many
-- more of those units are no more than the others, now and later.
if since >= a and since < a + windowMs then
  local fading, inside = math.max(0, relief - b), now > a and windowMs - now + a or windowMs
  b, c = math.max(0, b - relief), math.max(0, c - math.floor(fading * windowMs / inside))
end
