-- sliding-window-counter: the last `windowMs` are estimated from two aligned windows. The previous one
-- counts in proportion to how much of it is still inside: previous * (1 - e/W) + current, where e is the
-- time since the current window began. Exact if the previous window was spread evenly.
--
-- State: start of the current window (epoch ms), units in it, units in the previous window.
-- A clock that went back stands at the start of the window; by more than a window, it starts from nothing.

-- Everything is multiplied by W, so that it stays a whole number.
local function read(now, limit, windowMs, extra, cost, start, current, previous)
  local started = now - now % windowMs
  if not start or start < started - windowMs or start > started + windowMs then
    start, current, previous = started, 0, 0
  elseif start < started then
    start, current, previous = started, 0, current
  end
  local elapsed = now > start and now - start or 0
  local free = limit * windowMs - previous * (windowMs - elapsed)
  local room = (free - free % windowMs) / windowMs - current
  if cost <= room or cost > limit then return room, limit, nil, start, current, previous end

  -- The first millisecond at which the cost fits: in this window if what it has used leaves room for the
  -- cost, else in the next one, where this window's units are those that fade.
  local ends, fading, left = start + windowMs, previous, limit - current - cost
  if left < 0 then ends, fading, left = ends + windowMs, current, limit - cost end
  return room, limit, ends - math.floor(left * windowMs / fading) - now, start, current, previous
end

local function charge(units, at, now, limit, windowMs, extra, start, current, previous)
  if units > 0 or at >= start then
    current = math.max(0, current + units)
  elseif at >= start - windowMs then
    previous = math.max(0, previous + units)
  end
  if current > 0 then return start + 2 * windowMs, start, current, previous end
  return previous > 0 and start + windowMs or now, start, current, previous
end

return read, charge, 2
