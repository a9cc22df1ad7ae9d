-- sliding-window-log: every charge is remembered for `windowMs`, so the sum over any window is exact.
-- Charges of one millisecond share an entry. The memory is bounded by the limit, and is what it costs.
--
-- State: { units ever charged before the first entry, the entries }
-- An entry is 12 bytes: its time and the units ever charged up to and with it, 6 bytes each. Both only grow,
-- so that a place in the log is found by halving, without reading all of it.
local slidingWindowLog = { code = 7 }
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

local function total(state)
  local count = #state[2] / ENTRY
  return count > 0 and totalOf(state[2], count) or state[1]
end

function slidingWindowLog.advance(state, now, limit, windowMs)
  local log = state[2] or ''
  local count = #log / ENTRY
  -- A clock that went back stands still at the last entry; by more than a window, it starts from nothing.
  if count == 0 or timeOf(log, count) - now > windowMs then
    state[1], state[2] = 0, ''
    return limit, limit
  end
  now = math.max(now, timeOf(log, count))
  local live = firstAtLeast(log, timeOf, now - windowMs + 1)
  if live > 1 then
    state[1] = totalOf(log, live - 1)
    state[2] = string.sub(log, (live - 1) * ENTRY + 1)
  end
  return limit - (total(state) - state[1]), limit
end

function slidingWindowLog.wait(state, now, limit, windowMs, extra, cost)
  local leaving = firstAtLeast(state[2], totalOf, total(state) + cost - limit)
  return timeOf(state[2], leaving) + windowMs - now
end

local function append(state, units, now)
  local log, sum = state[2], total(state) + units
  local count = #log / ENTRY
  if count > 0 and timeOf(log, count) >= now then
    state[2] = string.sub(log, 1, -7) .. bytes(sum)
  else
    state[2] = log .. bytes(now) .. bytes(sum)
  end
end

-- Takes units back out of the entry they were charged to, if the window still holds it.
local function remove(state, units, at)
  local log = state[2]
  local i = firstAtLeast(log, timeOf, at)
  if i > #log / ENTRY or timeOf(log, i) ~= at then return end
  local before = i > 1 and totalOf(log, i - 1) or state[1]
  local removed = math.min(units, totalOf(log, i) - before)
  local kept = { string.sub(log, 1, (i - 1) * ENTRY) }
  for j = i, #log / ENTRY do
    local left = totalOf(log, j) - removed
    if j > i or left > before then kept[#kept + 1] = bytes(timeOf(log, j)) .. bytes(left) end
  end
  state[2] = table.concat(kept)
end

function slidingWindowLog.charge(state, units, at, now, limit, windowMs)
  if units > 0 then append(state, units, now) elseif units < 0 then remove(state, -units, at) end
  local count = #state[2] / ENTRY
  return count > 0 and timeOf(state[2], count) + windowMs or now
end

return slidingWindowLog
