-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch.
--
-- Simplest and cheapest, but two windows meet: up to twice the limit can pass around their border.
--
-- State: start of the window (epoch ms), units used in it.
-- The window after now's can only come from a clock that went back: it stays the current one. One further
-- ahead counts as none, so that nobody is locked out for longer than a window.
local function read(now, limit, windowMs, extra, cost, start, used)
  local current = now - now % windowMs
  if not start or start < current or start > current + windowMs then start, used = current, 0 end
  return limit - used, limit, start + windowMs - now, start, used
end

local function charge(units, at, now, limit, windowMs, extra, start, used)
  -- Only the window in which a charge was made can take it back.
  if units > 0 or at >= start then used = used + units end
  if used <= 0 then return now, start, 0 end
  return start + windowMs, start, used
end

return read, charge, 1
