-- sliding-window-counter: estimates the last `windowMs` from two aligned windows. The previous one counts in
-- proportion to how much of it is still inside: previous * (1 - e/W) + current, where e is the time since the
-- current window began. Exact if the previous window was spread evenly.
--
-- Record: when the counter is free again, the units in the previous window and in the current one. That moment shows
-- where the current window begins: two windows before it, or one if the current window is empty.
-- If the clock went back, time stands still at the start of the window. If it went back by more than a window, counting
-- starts anew. All values are multiplied by W, so that they stay whole numbers.

traits.c = { id = 'sliding-window-counter' }
algorithms.c = function()
  local function parse(text, check)
    local _, _, reset, previous, current = string.find(text, '^(%d+) (%d+) (%d+)$')
    if not reset then return nil end
    local state = { previous = tonumber(previous), current = tonumber(current) }
    state.start = tonumber(reset) - (state.current > 0 and 2 or 1) * check.windowMs
    return state
  end

  local function resetOf(state, now, check)
    if state.current > 0 then return state.start + 2 * check.windowMs end
    return state.previous > 0 and state.start + check.windowMs or now
  end

  local function store(state, reset) return string.format('%d %d %d', reset, state.previous, state.current) end

  local function advance(state, now, check)
    local limit, windowMs = check.limit, check.windowMs
    local start = now - now % windowMs
    if not state or state.current + state.previous == 0 or math.abs(state.start - start) > windowMs then
      state = { start = start, previous = 0, current = 0 }
    elseif state.start < start then
      state = { start = start, previous = state.current, current = 0 }
    end
    local inside = now > state.start and windowMs - now + state.start or windowMs
    return state, limit - state.current - ceilDivide(state.previous * inside, windowMs), limit, 0
  end

  -- The first millisecond at which the cost fits: in this window if its own units leave room, else in the next window,
  -- where the units of this one fade.
  local function wait(state, now, check, cost)
    local limit, windowMs = check.limit, check.windowMs
    local free = limit - state.current - cost
    if free >= 0 then return state.start + windowMs - floorDivide(free * windowMs, state.previous) - now end
    return state.start + 2 * windowMs - floorDivide((limit - cost) * windowMs, state.current) - now
  end

  -- A refund or a settlement changes only the window of the charge. Units in the previous window weigh less than
  -- their number, so the weight alone would not bound a settlement: it ends at twice the limit.
  local function charge(state, units, now, check, past)
    local start, windowMs = state.start, check.windowMs
    local at, previous, current = past and past.at or start, state.previous, state.current
    if at >= start and at < start + windowMs then
      current = math.max(0, current + units)
    elseif at >= start - windowMs and at < start then
      local most = units > 0 and math.max(previous, 2 * check.limit) or previous
      previous = math.max(0, math.min(previous + units, most))
    end
    local after = { start = start, previous = previous, current = current }
    return after, resetOf(after, now, check)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

--@take
-- A branch inside the loop of take.lua; `break` leaves the take to the general part.
elseif code == 99 then -- sliding-window-counter
  local start, previous, current, position = now - now % windowMs, 0, 0, nil
  local ends = start + windowMs
  if place then
    local _, stop, newer = find(text, '^ %d+ (%d+);', letterAt + 14)
    if not stop then
      isKnown = false
      break
    end
    last = stop
    local reset = sub(text, letterAt + 1, letterAt + 13) * 1
    if reset == ends + windowMs then
      position = last - #newer
      previous = sub(text, letterAt + 15, position - 2) * 1
      current = newer * 1
      if current == 0 then
        -- The counter is in the next window, which is empty: the clock went back.
        isKnown = false
        break
      end
    elseif reset == ends then
      -- This window is empty, or the counter has not moved since the one before.
      previous = newer * 1
      if previous == 0 then previous = sub(text, letterAt + 15, last - #newer - 2) * 1 end
    elseif reset > start then
      isKnown = false
      break
    end
  end
  current = current + cost
  -- Both sides are units times milliseconds, so nothing is rounded.
  if previous * (ends - now) > (limit - current) * windowMs then
    passes = false
  elseif position then
    if ends > covered then covered = ends end
    new = new .. sub(text, done + 1, position - 1) .. format('%d;', current)
  else
    local reset = ends + windowMs
    if reset > newest then newest = reset end
    new = new .. (prefix or sub(text, done + 1, letterAt)) .. format('%d %d %d;', reset, previous, current)
  end
