-- fixed-window: at most `limit` units in each window of `windowMs`. Windows are aligned to the epoch, or are those of a
-- calendar, whose borders the check names.
--
-- The simplest and cheapest algorithm, but up to twice the limit can pass around the border of two windows.
--
-- Record: the end of the window, the units used in it.
-- A stored window ahead of the current one means that the clock went back. If it is the next window, it stays in force.
-- If it is further ahead, the script ignores it, so that nobody is locked out for longer than a window.

traits.f = { id = 'fixed-window', countsUnits = true }
algorithms.f = function()
  -- Start and end of the window at `now`, and the end of the next one.
  local function windowAt(now, check)
    local borders, windowMs = check.borders, check.windowMs
    if not borders then
      local start = now - now % windowMs
      return start, start + windowMs, start + 2 * windowMs
    end
    local before, start, ends, after = borders[1], borders[2], borders[3], borders[4]
    if now < start then return before, start, ends end
    if now < ends then return start, ends, after end
    -- Beyond the last border, windows are as long as the last one.
    local lengthMs, since = after - ends, now - ends
    local current = now - since % lengthMs
    return current, current + lengthMs, current + 2 * lengthMs
  end

  local function parse(text)
    local _, _, reset, used = string.find(text, '^(%d+) (%d+)$')
    return reset and { reset = tonumber(reset), used = tonumber(used) }
  end

  local function store(state, reset) return string.format('%d %d', reset, state.used) end

  local function advance(state, now, check)
    local start, ends, nextEnds = windowAt(now, check)
    -- After a change of borders, a stored window may end within the current one. It ends at its own end.
    local isOver = not state or state.used == 0 or state.reset <= start or state.reset <= now or state.reset > nextEnds
    if isOver then state = { reset = ends, used = 0 } end
    return state, check.limit - state.used, check.limit, 0
  end

  local function wait(state, now) return state.reset - now end

  local function charge(state, units, now, check, past)
    local start, ends = windowAt(now, check)
    if state.reset > ends then start = ends end
    local at, used = past and past.at or start, state.used
    -- A refund or a settlement moves only the window of the charge.
    if at >= start and at < state.reset then used = math.max(0, used + units) end
    return { reset = state.reset, used = used }, used > 0 and state.reset or now
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

--@take
-- A branch inside the loop of take.lua; `break` leaves the take to the general part.
elseif code == 102 then -- fixed-window
  local ends, used, position = now - now % windowMs + windowMs, cost, nil
  if place then
    local _, stop, counted = find(text, '^ (%d+);', letterAt + 14)
    if not stop then
      isKnown = false
      break
    end
    last = stop
    local reset = sub(text, letterAt + 1, letterAt + 13) * 1
    if reset == ends then
      used = counted + cost
      position = letterAt + 15
    elseif reset > now then
      isKnown = false
      break
    end
  end
  if used > limit then
    passes = false
  elseif position then
    if ends > covered then covered = ends end
    new = new .. sub(text, done + 1, position - 1) .. format('%d;', used)
  else
    if ends > newest then newest = ends end
    new = new .. (prefix or sub(text, done + 1, letterAt)) .. format('%d %d;', ends, used)
  end
