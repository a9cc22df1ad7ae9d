-- sliding-window-log: remembers every charge for `windowMs`, so the sum over any window is exact. The price is memory,
-- which the limit bounds. Charges of one millisecond share an entry.
--
-- Record: when the counter is free again; the units ever charged before the first entry; the entries. An entry is 15
-- bytes: its time in 7, and in 8 the units ever charged up to and including this entry. Both only grow, so a binary
-- search finds an entry. Each byte carries 7 bits and has its eighth bit set, so no entry contains a character that
-- ends a record.
-- If the clock went back, time stands still at the last entry. By more than a window, counting starts anew.

traits.l = { id = 'sliding-window-log', mostUnits = 100000 }
algorithms.l = function()
  local ENTRY = 15

  local function timeOf(log, i)
    local first = (i - 1) * ENTRY + 1
    local a, b, c, d, e, f, g = string.byte(log, first, first + 6)
    local high = ((a - 128) * 128 + b - 128) * 128 + c - 128
    return high * 268435456 + (((d - 128) * 128 + e - 128) * 128 + f - 128) * 128 + g - 128
  end

  local function totalOf(log, i)
    local first = (i - 1) * ENTRY + 8
    local a, b, c, d, e, f, g, h = string.byte(log, first, first + 7)
    local high = (((a - 128) * 128 + b - 128) * 128 + c - 128) * 128 + d - 128
    return high * 268435456 + (((e - 128) * 128 + f - 128) * 128 + g - 128) * 128 + h - 128
  end

  local function entry(time, total)
    local timeLow, totalLow = time % 268435456, total % 268435456
    local timeHigh, totalHigh = (time - timeLow) / 268435456, (total - totalLow) / 268435456
    return string.char(
      128 + math.floor(timeHigh / 16384), 128 + math.floor(timeHigh / 128) % 128, 128 + timeHigh % 128,
      128 + math.floor(timeLow / 2097152), 128 + math.floor(timeLow / 16384) % 128,
      128 + math.floor(timeLow / 128) % 128, 128 + timeLow % 128,
      128 + math.floor(totalHigh / 2097152), 128 + math.floor(totalHigh / 16384) % 128,
      128 + math.floor(totalHigh / 128) % 128, 128 + totalHigh % 128,
      128 + math.floor(totalLow / 2097152), 128 + math.floor(totalLow / 16384) % 128,
      128 + math.floor(totalLow / 128) % 128, 128 + totalLow % 128
    )
  end

  -- The first entry whose time (or total) is at least `value`; one past the last if there is none.
  local function firstAtLeast(log, read, value)
    local low, high = 1, #log / ENTRY + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if read(log, middle) < value then low = middle + 1 else high = middle end
    end
    return low
  end

  local function totalBy(state)
    local count = #state.log / ENTRY
    return count > 0 and totalOf(state.log, count) or state.before
  end

  local function lastTime(state, now) return #state.log > 0 and timeOf(state.log, #state.log / ENTRY) or now end

  local function resetOf(state, now, check)
    return #state.log > 0 and lastTime(state, now) + check.windowMs or now
  end

  -- The entries from `first` to `last`, with `more` added to their totals. Joins a hundred at a time, because a
  -- long list does not fit on every server's stack.
  local function withTotals(log, first, last, more)
    local text, parts = '', {}
    for i = first, last do
      parts[#parts + 1] = entry(timeOf(log, i), totalOf(log, i) + more)
      if #parts == 100 or i == last then
        text = text .. table.concat(parts, '', 1, #parts)
        parts = {}
      end
    end
    return text
  end

  local function append(state, units, now)
    local log, count, total = state.log, #state.log / ENTRY, totalBy(state) + units
    if count == 0 or timeOf(log, count) < now then return log .. entry(now, total) end
    return string.sub(log, 1, (count - 1) * ENTRY) .. entry(timeOf(log, count), total)
  end

  -- Changes the charge of one moment: its entry, which exists only while it has units, and the totals of all entries
  -- after it.
  local function changeEntry(state, units, at)
    local log, count = state.log, #state.log / ENTRY
    local i = firstAtLeast(log, timeOf, at)
    local earlier = i > 1 and totalOf(log, i - 1) or state.before
    local isThere = i <= count and timeOf(log, i) == at
    local held = isThere and totalOf(log, i) - earlier or 0
    local moved = math.max(units, -held)
    local changed = held + moved > 0 and entry(at, earlier + held + moved) or ''
    return string.sub(log, 1, (i - 1) * ENTRY) .. changed .. withTotals(log, isThere and i + 1 or i, count, moved)
  end

  local function parse(text)
    local _, past, before = string.find(text, '^%d+ (%d+) ')
    return past and { before = tonumber(before), log = string.sub(text, past + 1) }
  end

  local function store(state, reset) return string.format('%d %d %s', reset, state.before, state.log) end

  local function advance(state, now, check)
    local limit, windowMs = check.limit, check.windowMs
    if not state or lastTime(state, now) - now > windowMs then return { before = 0, log = '' }, limit, limit, 0 end
    local live = firstAtLeast(state.log, timeOf, math.max(now, lastTime(state, now)) - windowMs + 1)
    if #state.log == 0 then
      state = { before = 0, log = '' }
    elseif live > 1 then
      local log = string.sub(state.log, (live - 1) * ENTRY + 1)
      state = { before = totalOf(state.log, live - 1), log = log }
    end
    return state, limit - totalBy(state) + state.before, limit, 0
  end

  local function wait(state, now, check, cost)
    local leaving = firstAtLeast(state.log, totalOf, totalBy(state) + cost - check.limit)
    return timeOf(state.log, leaving) + check.windowMs - now
  end

  local function charge(state, units, now, check, past)
    local log = state.log
    if past and units ~= 0 then
      local latest = math.max(now, lastTime(state, now))
      -- Only if that moment is still inside the window.
      if past.at > latest - check.windowMs and past.at <= latest then
        local changed = changeEntry(state, units, past.at)
        log = changed
      end
    elseif units > 0 then
      log = append(state, units, now)
    end
    local after = { before = state.before, log = log }
    return after, resetOf(after, now, check)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end
