-- sliding-window-log: every charge is remembered for `windowMs`, so the sum over any window is exact.
-- Charges of one millisecond share an entry. The memory is bounded by the limit, and is what it costs.
--
-- State: units ever charged before the first entry; the entries.
-- An entry is 12 bytes: its time and the units ever charged up to and with it, 6 bytes each. Both only grow,
-- so that a place in the log is found by halving, without reading all of it.
local ENTRY = 12

local function number(log, at)
  local a, b, c, d, e, f = string.byte(log, at, at + 5)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

local function bytes(value)
  local low = value % 16777216
  local high = (value - low) / 16777216
  return string.char(
    math.floor(high / 65536), math.floor(high / 256) % 256, high % 256,
    math.floor(low / 65536), math.floor(low / 256) % 256, low % 256
  )
end

local function timeOf(log, i) return number(log, (i - 1) * ENTRY + 1) end
local function totalOf(log, i) return number(log, (i - 1) * ENTRY + 7) end

-- The first entry whose time (or total) is at least `value`; one past the last if there is none.
local function firstAtLeast(log, read, value)
  local low, high = 1, #log / ENTRY + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if read(log, middle) < value then low = middle + 1 else high = middle end
  end
  return low
end

local function totalBy(before, log)
  local count = #log / ENTRY
  return count > 0 and totalOf(log, count) or before
end

local function read(now, limit, windowMs, extra, cost, before, log)
  local count = log and #log / ENTRY or 0
  -- A clock that went back stands still at the last entry; by more than a window, it starts from nothing.
  if count == 0 or timeOf(log, count) - now > windowMs then return limit, limit, false, 0, '' end
  local live = firstAtLeast(log, timeOf, math.max(now, timeOf(log, count)) - windowMs + 1)
  if live > 1 then
    before = totalOf(log, live - 1)
    log = string.sub(log, (live - 1) * ENTRY + 1)
  end
  local total = totalBy(before, log)
  local room = limit - (total - before)
  local wait = false
  if cost > room and cost <= limit then
    wait = timeOf(log, firstAtLeast(log, totalOf, total + cost - limit)) + windowMs - now
  end
  return room, limit, wait, before, log
end

local function append(before, log, units, now)
  local count, total = #log / ENTRY, totalBy(before, log) + units
  if count > 0 and timeOf(log, count) >= now then return string.sub(log, 1, -7) .. bytes(total) end
  return log .. bytes(now) .. bytes(total)
end

-- Changes what was charged at one moment: its entry, which comes and goes with its units, and the totals of all
-- entries after it.
local function amend(before, log, units, at)
  local count = #log / ENTRY
  local i = firstAtLeast(log, timeOf, at)
  local earlier = i > 1 and totalOf(log, i - 1) or before
  local isThere = i <= count and timeOf(log, i) == at
  local held = isThere and totalOf(log, i) - earlier or 0
  local moved = math.max(units, -held)
  local parts = { string.sub(log, 1, (i - 1) * ENTRY) }
  if held + moved > 0 then parts[2] = bytes(at) .. bytes(earlier + held + moved) end
  for j = isThere and i + 1 or i, count do
    parts[#parts + 1] = bytes(timeOf(log, j)) .. bytes(totalOf(log, j) + moved)
  end
  return table.concat(parts)
end

local function charge(units, at, now, limit, windowMs, extra, before, log)
  local count = #log / ENTRY
  if units ~= 0 and at then
    local latest = count > 0 and math.max(now, timeOf(log, count)) or now
    -- Only if the window still holds that moment.
    if at > latest - windowMs and at <= latest then log = amend(before, log, units, at) end
  elseif units > 0 then
    log = append(before, log, units, now)
  end
  count = #log / ENTRY
  return count > 0 and timeOf(log, count) + windowMs or now, before, log
end

-- The newest first, but none that is newer than what the other region has charged. Later entries keep their units,
-- and their totals fall.
local function relieve(relief, since, fullLimit, now, limit, windowMs, extra, before, log)
  local count, later = #log / ENTRY, firstAtLeast(log, timeOf, since + 1)
  local total = later > 1 and totalOf(log, later - 1) or before
  local taken = math.min(relief, total - before)
  local kept = total - taken
  local last = firstAtLeast(log, totalOf, kept)
  local parts = { string.sub(log, 1, (last - 1) * ENTRY) }
  if kept > (last > 1 and totalOf(log, last - 1) or before) then parts[2] = bytes(timeOf(log, last)) .. bytes(kept) end
  for i = later, count do parts[#parts + 1] = bytes(timeOf(log, i)) .. bytes(totalOf(log, i) - taken) end
  return before, table.concat(parts)
end

return read, charge, relieve
