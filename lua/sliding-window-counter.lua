-- sliding-window-counter: the last `windowMs` are estimated from two aligned windows. The previous one
-- counts in proportion to how much of it is still inside: previous * (1 - e/W) + current, where e is the
-- time since the current window began. Exact if the previous window was spread evenly.
--
-- State: { start of the current window (epoch ms), units in it, units in the previous window }
-- All terms are multiplied by W, so that everything stays a whole number.
local slidingWindowCounter = { code = 2 }

-- Units of the previous window that still count, times W. A clock that went back stands at the start; one
-- that went back by more than a window starts from nothing.
local function weighted(state, now, windowMs)
  return state[3] * (windowMs - math.max(0, now - state[1]))
end

function slidingWindowCounter.advance(state, now, limit, windowMs)
  local start = now - now % windowMs
  if not state[1] or state[1] < start - windowMs or state[1] > start + windowMs then
    state[1], state[2], state[3] = start, 0, 0
  elseif state[1] < start then
    state[1], state[2], state[3] = start, 0, state[2]
  end
  return math.floor((limit * windowMs - weighted(state, now, windowMs)) / windowMs) - state[2], limit
end

-- Solved for the first millisecond at which the cost fits: in this window if what it has used leaves
-- room for the cost, else in the next, where this window's units are the ones that fade.
function slidingWindowCounter.wait(state, now, limit, windowMs, extra, cost)
  local start, current, previous = state[1], state[2], state[3]
  local free = limit - current - cost
  if free >= 0 then return start + windowMs - math.floor(free * windowMs / previous) - now end
  return start + 2 * windowMs - math.floor((limit - cost) * windowMs / current) - now
end

function slidingWindowCounter.charge(state, units, at, now, limit, windowMs)
  local start = state[1]
  if units > 0 or at >= start then
    state[2] = math.max(0, state[2] + units)
  elseif at >= start - windowMs then
    state[3] = math.max(0, state[3] + units)
  end
  if state[2] > 0 then return start + 2 * windowMs end
  return state[3] > 0 and start + windowMs or now
end

return slidingWindowCounter
