-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- Record: when the bucket is full; `missing`, the tokens that it lacks until then; `rate`, the limit that refills
-- them. `missing` holds at the moment `at`, which follows from the other two. `missing` is in tokens times W, so that a
-- millisecond refills exactly `rate` and nothing is ever rounded. If limit or burst change, tokens that were taken are
-- still missing, and the next charge sets the new rate. Until then the old one refills them, and waits count with it.

traits.t = { id = 'token-bucket' }
algorithms.t = function()
  local function parse(text)
    local _, _, reset, missing, rate = string.find(text, '^(%d+) (%d+) (%d+)$')
    if not reset or tonumber(rate) == 0 then return nil end
    local state = { missing = tonumber(missing), rate = tonumber(rate) }
    state.at = tonumber(reset) - ceilDivide(state.missing, state.rate)
    return state
  end

  local function store(state, reset) return string.format('%d %d %d', reset, state.missing, state.rate) end

  local function advance(state, now, check)
    local limit, windowMs, burst = check.limit, check.windowMs, check.extra or check.limit
    local missing, at, rate = 0, now, limit
    -- If the clock went back, time stands still until the clock has caught up. By more than a window, counting starts
    -- anew, so that nobody is locked out for longer than a window.
    if state and state.at - now <= windowMs then
      local elapsed = math.max(0, now - state.at)
      missing = math.max(0, state.missing - elapsed * state.rate)
      at = math.max(at, state.at)
      rate = state.rate
    end
    local after = { missing = missing, at = at, rate = rate }
    return after, burst - ceilDivide(missing, windowMs), burst, 0
  end

  local function wait(state, now, check, cost)
    local lacking = state.missing - ((check.extra or check.limit) - cost) * check.windowMs
    return state.at - now + ceilDivide(lacking, state.rate)
  end

  -- A refund gives back only tokens of that charge that are certainly still missing. The others may have been
  -- refilled, and the tokens missing now may belong to another charge. A refund works for the time W. A settlement is
  -- a debt like any other.
  local function charge(state, units, now, check, past)
    local windowMs = check.windowMs
    local change = units * windowMs
    if past and units < 0 then
      local ago = math.max(0, now - past.at)
      local fastest = math.max(check.limit, state.rate)
      local certain = ago < windowMs and (past.kept - units) * windowMs - ago * fastest or 0
      change = -math.max(0, math.min(-change, certain))
    end
    local rate = units > 0 and check.limit or state.rate
    local after = { missing = math.max(0, state.missing + change), at = state.at, rate = rate }
    return after, after.at + ceilDivide(after.missing, after.rate)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

--@take
-- A branch inside the loop of take.lua; `break` leaves the take to the general part.
elseif code == 116 or code == 103 or code == 107 then -- token-bucket, gcra, leaky-bucket
  local missing, rate = 0, nil
  if place then
    last = find(text, ';', letterAt, true)
    local gap = last and last > letterAt + 17 and find(text, ' ', letterAt + 16, true)
    if not gap then
      isKnown = false
      break
    end
    -- With the space after it: a number that goes on there is later than any time of 13 digits.
    local reset = sub(text, letterAt + 1, letterAt + 14) * 1
    if reset > now then
      local stored = sub(text, letterAt + 15, gap - 1) * 1
      rate = sub(text, gap + 1, last - 1)
      local pace = rate == limitText and limit or rate * 1
      local part = stored % pace
      -- A millisecond refills `pace`, and the last one before `reset` only the part.
      missing = (reset - now) * pace
      if part > 0 then missing = missing + part - pace end
      if missing > stored then
        -- Now is before the moment of the record: the clock went back. Or the time has more than 13 digits.
        isKnown = false
        break
      end
    end
  end
  missing = missing + cost * windowMs
  if missing > (extra or limit) * windowMs then
    passes = false
  else
    local part = missing % limit
    local reset = now + (missing - part) / limit
    if part > 0 then reset = reset + 1 end
    if reset > newest then newest = reset end
    if rate ~= limitText then rate = format('%d', limit) end
    new = new .. (prefix or sub(text, done + 1, letterAt)) .. format('%d %d ', reset, missing) .. rate .. ';'
  end
