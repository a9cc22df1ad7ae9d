-- coin: at most `limit` units in each window of `windowMs`, which it knows by their numbers.
--
-- Record: when the window ends, its number, and the units used in it.

traits.o = { id = 'coin' }
algorithms.o = function()
  local function endOf(state, check) return (state.number + 1) * check.windowMs end

  local function parse(text)
    local _, _, number, used = string.find(text, '^%d+ (%d+) (%d+)$')
    return number and { number = tonumber(number), used = tonumber(used) }
  end

  local function store(state, reset) return string.format('%d %d %d', reset, state.number, state.used) end

  local function advance(state, now, check)
    local current = floorDivide(now, check.windowMs)
    if not state or state.used == 0 or state.number < current or state.number > current + 1 then
      state = { number = current, used = 0 }
    end
    return state, check.limit - state.used, check.limit, 0
  end

  local function wait(state, now, check) return endOf(state, check) - now end

  local function charge(state, units, now, check, past)
    local used = state.used
    if not past or floorDivide(past.at, check.windowMs) == state.number then used = math.max(0, used + units) end
    local after = { number = state.number, used = used }
    return after, used > 0 and endOf(after, check) or now
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

--@take
elseif code == 111 then -- coin
  local number, used = (now - now % windowMs) / windowMs, cost
  local ends = (number + 1) * windowMs
  if place then
    last = find(text, ';', letterAt, true)
    local gap = last and last > letterAt + 17 and find(text, ' ', letterAt + 15, true)
    local reset = gap and sub(text, letterAt + 1, letterAt + 13) * 1
    if reset == ends then
      used = sub(text, gap + 1, last - 1) + cost
    elseif not reset or reset > now then
      isKnown = false
      break
    end
  end
  if used > limit then
    passes = false
  else
    if ends > newest then newest = ends end
    new = new .. (prefix or sub(text, done + 1, letterAt)) .. format('%d %d %d;', ends, number, used)
  end
