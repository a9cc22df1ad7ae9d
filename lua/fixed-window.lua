-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch.
--
-- Simple and cheapest, but two windows meet: up to twice the limit can pass around their border.
--
-- State: { start of the window (epoch ms), units used in it }
-- The window after now's can only come from a clock that went back: it stays the current one. One further
-- ahead counts as none, so that nobody is locked out for longer than a window.
local fixedWindow = { code = 1 }

function fixedWindow.advance(state, now, limit, windowMs)
  local start = now - now % windowMs
  if not state[1] or state[1] < start or state[1] > start + windowMs then
    state[1], state[2] = start, 0
  end
  return limit - state[2], limit
end

function fixedWindow.wait(state, now, limit, windowMs)
  return state[1] + windowMs - now
end

function fixedWindow.charge(state, units, at, now, limit, windowMs)
  -- Only the window in which a charge was made can take it back.
  if units > 0 or at >= state[1] then state[2] = math.max(0, state[2] + units) end
  return state[2] > 0 and state[1] + windowMs or now
end

return fixedWindow
