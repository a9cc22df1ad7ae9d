#!lua flags=allow-key-locking

-- lua/counters/take.lua
local ARGV, KEYS, redis = ARGV, KEYS, redis
local names, width, costAt, extraAt = ARGV[1], 3, nil, nil
if names == 'take' then
elseif names == 'take cost' then
  costAt = 3
  width = 4
elseif names == 'take extra' then
  extraAt = 3
  width = 4
elseif names == 'take cost extra' then
  costAt = 3
  extraAt = 4
  width = 5
else
  width = nil
end
local time, value
local count = #ARGV
if width and KEYS[1] and not KEYS[2] and count > width and count <= 1501 and count % width == 1 then
  local string, key = string, KEYS[1]
  local find, sub, byte, format = string.find, string.sub, string.byte, string.format
  time = redis.call('TIME')
  value = redis.pcall('GET', key) or ''
  local millis, text = time[2] / 1000, value
  local now = time[1] * 1000 + (millis - millis % 1)
  if text == '' then text = '000000000000000 weir3;' end
  local size = #text
  local isKnown, passes = size >= 22 and size <= 1024 and now >= 1000000000000 and now < 7000000000000
    and sub(text, 16, 22) == ' weir3;', true
  local new, done, newest, covered, isNew = '', 22, 0, 0, false
  if isKnown then
    for at = 2, count, width do
      local counter, limitText, windowMs, cost, extra = ARGV[at], ARGV[at + 1], ARGV[at + 2] * 1, 1, nil
      local limit = limitText * 1
      if width > 3 then
        if costAt and ARGV[at + costAt] ~= '' then cost = ARGV[at + costAt] * 1 end
        if extraAt and ARGV[at + extraAt] ~= '' then extra = ARGV[at + extraAt] * 1 end
        local most = extra or 1
        local product = most * windowMs
        if cost < 1 or most < 1 or cost % 1 + most % 1 ~= 0 or cost > 4503599627370496 or product > 17592186044416
          and (product > 4503599627370496 or product > limit * 17592186044416) then
          isKnown = false
          break
        end
      end
      local place, letterAt = find(text, counter, done, true)
      local code, prefix, last = byte(counter, -1), nil, nil
      if not place then
        if not find(counter, '^;[%w_-]+:%l$') or find(text, sub(counter, 1, -2), 1, true) then
          isKnown = false
          break
        end
        prefix = sub(counter, 2)
        isNew = true
      end
      local product = limit * windowMs
      if limit < 1 or product < limit or limit % 1 + windowMs % 1 ~= 0
        or product > 1099511627776 and (product > 4503599627370496 or windowMs > 1099511627776) then
        isKnown = false
        break

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
              isKnown = false
              break
            end
          elseif reset == ends then
            previous = newer * 1
            if previous == 0 then previous = sub(text, letterAt + 15, last - #newer - 2) * 1 end
          elseif reset > start then
            isKnown = false
            break
          end
        end
        current = current + cost
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
      elseif code == 116 or code == 103 or code == 107 then -- token-bucket, gcra, leaky-bucket
        local missing, rate = 0, nil
        if place then
          last = find(text, ';', letterAt, true)
          local gap = last and last > letterAt + 17 and find(text, ' ', letterAt + 16, true)
          if not gap then
            isKnown = false
            break
          end
          local reset = sub(text, letterAt + 1, letterAt + 14) * 1
          if reset > now then
            local stored = sub(text, letterAt + 15, gap - 1) * 1
            rate = sub(text, gap + 1, last - 1)
            local pace = rate == limitText and limit or rate * 1
            local part = stored % pace
            missing = (reset - now) * pace
            if part > 0 then missing = missing + part - pace end
            if missing > stored then
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
      else
        isKnown = false
        break
      end
      done = last or done
    end
  end
  if isKnown and not passes then return time[1] .. ' ' .. time[2] .. '-' .. value end
  local expires
  if not isKnown then
  elseif value == '' then
    isKnown = newest < 9999999000000
    expires = newest + 15000
  elseif newest > covered or isNew then
    isKnown = not isNew or find(text, '^00%d+ weir3;')
    expires = isKnown and sub(text, 3, 15) * 1
    if not isKnown then
    elseif newest + 5000 > expires then
      isKnown = newest < 9999999000000 and byte(text, 2) == 48
      expires = newest + 15000
    elseif not isNew then
      expires = nil
    end
  end
  if isKnown then
    if done < size then new = new .. sub(text, done + 1) end
    if expires then
      local digits = format('%d', expires)
      redis.call('SET', key, '00' .. digits .. ' weir3;' .. new, 'PXAT', digits)
    elseif #new == size - 22 then
      redis.call('SETRANGE', key, '22', new)
    else
      redis.call('SET', key, sub(text, 1, 22) .. new, 'KEEPTTL')
    end
    return time[1] .. ' ' .. time[2] .. '+' .. value
  end
end

-- lua/counters/arithmetic.lua
local LARGEST, LONGEST, SLOWEST, LATEST = 4503599627370496, 1099511627776, 17592186044416, 140737488355328

local function floorDivide(a, b) return (a - a % b) / b end

local function ceilDivide(a, b)
  local rest = a % b
  return (a - rest) / b + (rest > 0 and 1 or 0)
end

local function timeOf(digits)
  local time = digits and #digits < 16 and tonumber(digits) or 0
  return time <= LATEST and time or 0
end

local function whole(text)
  local number = text and tonumber(text)
  return number and number >= 1 and number <= LARGEST and number % 1 == 0 and number or nil
end

-- lua/counters/algorithms.lua
local traits, algorithms, made = {}, {}, {}

local function algorithmOf(letter)
  if not made[letter] then
    local make = algorithms[letter]
    made[letter] = make()
  end
  return made[letter]
end

-- lua/counters/algorithms/fixed-window.lua
traits.f = { id = 'fixed-window', countsUnits = true }
algorithms.f = function()
  local function windowAt(now, check)
    local borders, windowMs = check.borders, check.windowMs
    if not borders then
      local start = now - now % windowMs
      return start, start + windowMs, start + 2 * windowMs
    end
    local before, start, ends, after = borders[1], borders[2], borders[3], borders[4]
    if now < start then return before, start, ends end
    if now < ends then return start, ends, after end
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
    local isOver = not state or state.used == 0 or state.reset <= start or state.reset <= now or state.reset > nextEnds
    if isOver then state = { reset = ends, used = 0 } end
    return state, check.limit - state.used, check.limit, 0
  end

  local function wait(state, now) return state.reset - now end

  local function charge(state, units, now, check, past)
    local start, ends = windowAt(now, check)
    if state.reset > ends then start = ends end
    local at, used = past and past.at or start, state.used
    if at >= start and at < state.reset then used = math.max(0, used + units) end
    return { reset = state.reset, used = used }, used > 0 and state.reset or now
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

-- lua/counters/algorithms/sliding-window-log.lua
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

-- lua/counters/algorithms/sliding-window-counter.lua
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

  local function wait(state, now, check, cost)
    local limit, windowMs = check.limit, check.windowMs
    local free = limit - state.current - cost
    if free >= 0 then return state.start + windowMs - floorDivide(free * windowMs, state.previous) - now end
    return state.start + 2 * windowMs - floorDivide((limit - cost) * windowMs, state.current) - now
  end

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

-- lua/counters/algorithms/sliding-window-buckets.lua
traits.b = { id = 'sliding-window-buckets', hasBuckets = true }
algorithms.b = function()
  local function bucketMs(check) return math.ceil(check.windowMs / (check.extra or 10)) end

  local function keptBuckets(check) return math.ceil(check.windowMs / bucketMs(check)) + 1 end

  local function leavesAt(state, place, check) return (state.number - place + 1 + keptBuckets(check)) * bucketMs(check) end

  local function resetOf(state, now, check)
    for place = 1, #state.counts do
      if state.counts[place] > 0 then return leavesAt(state, place, check) end
    end
    return now
  end

  local function parse(text)
    local _, _, number, counts = string.find(text, '^%d+ (%d+) ([%d,]+)$')
    if not number then return nil end
    local state = { number = tonumber(number), counts = {} }
    for count in string.gmatch(counts, '%d+') do state.counts[#state.counts + 1] = tonumber(count) end
    return state
  end

  local function store(state, reset)
    local texts = {}
    for place = 1, #state.counts do texts[place] = string.format('%.0f', state.counts[place]) end
    return string.format('%d %d %s', reset, state.number, table.concat(texts, ',', 1, #texts))
  end

  local function advance(state, now, check)
    local kept, current = keptBuckets(check), math.floor(now / bucketMs(check))
    local isStored = state and #state.counts == kept and state.number - current <= kept
    local number = isStored and math.max(state.number, current) or current
    local counts, used = {}, 0
    for place = 1, kept do
      counts[place] = isStored and state.counts[place - number + state.number] or 0
      used = used + counts[place]
    end
    return { number = number, counts = counts }, check.limit - used, check.limit, 0
  end

  local function wait(state, now, check, cost)
    local missing, place = cost - check.limit, #state.counts + 1
    for i = 1, #state.counts do missing = missing + state.counts[i] end
    repeat
      place = place - 1
      missing = missing - state.counts[place]
    until missing <= 0
    return leavesAt(state, place, check) - now
  end

  local function charge(state, units, now, check, past)
    local counts = {}
    for place = 1, #state.counts do counts[place] = state.counts[place] end
    local place = past and 1 + state.number - math.floor(past.at / bucketMs(check)) or 1
    if counts[place] then counts[place] = math.max(0, counts[place] + units) end
    local after = { number = state.number, counts = counts }
    return after, resetOf(after, now, check)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

-- lua/counters/algorithms/token-bucket.lua
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

-- lua/counters/algorithms/leaky-bucket.lua
traits.k = { id = 'leaky-bucket' }
algorithms.k = function()
  local bucket = algorithmOf('t')

  local function advance(state, now, check)
    local after, room, capacity = bucket.advance(state, now, check)
    return after, room, capacity, after.at - now + ceilDivide(after.missing, check.limit)
  end

  return {
    parse = bucket.parse, store = bucket.store, advance = advance, wait = bucket.wait, charge = bucket.charge,
  }
end

-- lua/counters/algorithms/gcra.lua
traits.g = { id = 'gcra' }
algorithms.g = function() return algorithmOf('t') end

-- lua/counters/algorithms/concurrency.lua
traits.h = { id = 'concurrency', mostUnits = 100000, holdsSeats = true }
algorithms.h = function()
  local ID, SEAT = 16, 23

  local function expiry(seats, i)
    local a, b, c, d, e, f, g = string.byte(seats, (i - 1) * SEAT + ID + 1, i * SEAT)
    local high = ((a - 128) * 128 + b - 128) * 128 + c - 128
    return high * 268435456 + (((d - 128) * 128 + e - 128) * 128 + f - 128) * 128 + g - 128
  end

  local function seat(id, moment)
    local low = moment % 268435456
    local high = (moment - low) / 268435456
    return id .. string.char(
      128 + math.floor(high / 16384), 128 + math.floor(high / 128) % 128, 128 + high % 128,
      128 + math.floor(low / 2097152), 128 + math.floor(low / 16384) % 128,
      128 + math.floor(low / 128) % 128, 128 + low % 128
    )
  end

  local function endedBy(seats, moment)
    local low, high = 1, #seats / SEAT + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if expiry(seats, middle) <= moment then low = middle + 1 else high = middle end
    end
    return low - 1
  end

  local function without(seats, id)
    local at = string.find(seats, id, 1, true)
    while at do
      local offset = at - 1
      if offset % SEAT == 0 then
        local past = at
        while string.sub(seats, past, past + ID - 1) == id do past = past + SEAT end
        return string.sub(seats, 1, at - 1) .. string.sub(seats, past), (past - at) / SEAT
      end
      at = string.find(seats, id, at + 1, true)
    end
    return seats, 0
  end

  local function resetOf(seats, now) return #seats > 0 and expiry(seats, #seats / SEAT) or now end

  local function parse(text)
    local _, past = string.find(text, '^%d+ ')
    return past and { seats = string.sub(text, past + 1) }
  end

  local function store(state, reset) return string.format('%d %s', reset, state.seats) end

  local function advance(state, now, check)
    local all = state and state.seats or ''
    local seats = string.sub(all, endedBy(all, now) * SEAT + 1)
    local others, held = without(seats, check.seat)
    return { seats = seats, others = others, held = held }, check.limit - #others / SEAT, check.limit, 0
  end

  local function wait(state, now, check, cost)
    return expiry(state.others, #state.others / SEAT + cost - check.limit) - now
  end

  local function charge(state, units, now, check)
    if units == 0 then return state, resetOf(state.seats, now) end
    local seats = state.others
    if units > 0 then
      local moment = now + check.windowMs
      local place = endedBy(seats, moment) * SEAT
      seats = string.sub(seats, 1, place) .. string.rep(seat(check.seat, moment), units) .. string.sub(seats, place + 1)
    end
    return { seats = seats }, resetOf(seats, now)
  end

  return { parse = parse, store = store, advance = advance, wait = wait, charge = charge }
end

-- lua/counters/arguments.lua
local COLUMNS = ' key cost extra seat borders block denied shadow '
local OWN_COLUMNS = {
  take = ' lease ', peek = ' ', refund = ' at kept ', settle = ' at most ', renew = ' ',
  transfer = ' owner term hold at charged ', recall = ' ',
}
local MAX_CHECKS, MAX_KEYS, MAX_BUCKETS = 500, 100, 100

local function contains(list, name) return string.find(list, ' ' .. name .. ' ', 1, true) end

local function readHeader(header)
  local operation, columns, width = nil, { counter = 0, limit = 1, windowMs = 2 }, 3
  for word in string.gmatch(header, '%S+') do
    if not operation then
      operation = word
      if not OWN_COLUMNS[operation] then break end
    elseif columns[word] or not (contains(COLUMNS, word) or contains(OWN_COLUMNS[operation], word)) then
      return nil, nil, nil, 'unknown column'
    else
      columns[word] = width
      width = width + 1
    end
  end
  if not OWN_COLUMNS[operation or ''] then return nil, nil, nil, 'unknown operation' end
  return operation, columns, width, nil
end

local function bordersIn(text)
  local _, _, first, second, third, fourth = string.find(text, '^(%d+) (%d+) (%d+) (%d+)$')
  if not fourth then return nil end
  local before, start, ends, after = tonumber(first), tonumber(second), tonumber(third), tonumber(fourth)
  if before < 1 or start <= before or ends <= start or after <= ends or after > LATEST then return nil end
  return { before, start, ends, after }
end

local function commonProblem(check, text)
  local trait = traits[check.letter]
  if not trait then return 'unknown algorithm' end
  if not string.find(check.counter, '^;[%w_-]+:%l$') then return 'an id must have letters, digits, - or _' end
  if not check.key then return 'key must be the number of a key' end
  if not check.limit then return 'limit must be a whole number above 0' end
  if not check.windowMs or check.windowMs > LONGEST then return 'windowMs must be a whole number from 1 to 2^40' end
  if not check.cost then return 'cost must be a whole number above 0' end
  if trait.holdsSeats then
    local seat = check.seat or ''
    if #seat ~= 16 or string.find(seat, '[^%w_-]') then return 'a seat id must have 16 letters, digits, - or _' end
    if check.countsDenied then return trait.id .. ' cannot count denied requests' end
  elseif text.extra and not check.extra then
    return 'burst and buckets must be whole numbers above 0'
  end
  if text.block and not (check.blockMs and check.blockMs <= LONGEST) then
    return 'block must be a whole number from 1 to 2^40'
  end
  if text.borders and not check.borders then return 'borders must be four times, one after the other' end
  return nil
end

local function ownProblem(operation, check, text)
  local holdsSeats = traits[check.letter].holdsSeats
  if operation == 'renew' and not holdsSeats then return 'only seats can be renewed' end
  if operation == 'settle' and holdsSeats then return 'seats cannot be settled' end
  if operation == 'settle' and not text.at then return 'settle needs the time of the charge' end
  if operation == 'transfer' then
    local owner = text.owner or ''
    if #owner < 1 or #owner > 32 or string.find(owner, '[^%l%d-]') then return 'transfer needs the name of a region' end
    if not check.term or not check.hold or check.term > SLOWEST or check.hold > SLOWEST then
      return 'term and hold must be whole numbers from 1 to 2^44'
    end
  end
  for _, column in ipairs({ 'lease', 'kept', 'most', 'charged', 'at' }) do
    if text[column] and not check[column] then return column .. ' must be a whole number above 0' end
  end
  return nil
end

local function sizeProblem(check)
  local trait, most = traits[check.letter], check.extra or 0
  if trait.mostUnits and check.limit > trait.mostUnits then
    return trait.id .. ' takes a limit of up to ' .. trait.mostUnits
  end
  if trait.hasBuckets and most > MAX_BUCKETS then return 'there can be up to ' .. MAX_BUCKETS .. ' buckets' end
  if math.max(trait.countsUnits and 0 or check.limit, most) * check.windowMs > LARGEST then
    return 'limit times windowMs must stay below 2^52'
  end
  if not trait.hasBuckets and most * check.windowMs > SLOWEST * check.limit then
    return 'an empty bucket must be full again within 2^44 ms'
  end
  return nil
end

local function readCheck(operation, columns, first)
  local text = {}
  for name, at in pairs(columns) do
    if ARGV[first + at] ~= '' then text[name] = ARGV[first + at] end
  end
  local counter = text.counter or ''
  local letter = string.sub(counter, -1)
  local trait = traits[letter] or {}
  local key = tonumber(text.key or columns.key and '' or 1)
  local check = {
    counter = counter, letter = letter, key = key and KEYS[key] and key, limit = whole(text.limit),
    windowMs = whole(text.windowMs), cost = whole(text.cost or 1), seat = text.seat,
    extra = not trait.holdsSeats and whole(text.extra) or nil, blockMs = whole(text.block),
    borders = text.borders and bordersIn(text.borders), countsDenied = text.denied and true or false,
    isShadow = text.shadow and true or false, lease = whole(text.lease), kept = whole(text.kept),
    most = whole(text.most), at = whole(text.at), owner = text.owner, term = whole(text.term),
    hold = whole(text.hold), charged = whole(text.charged),
  }
  local problem = commonProblem(check, text) or ownProblem(operation, check, text) or sizeProblem(check)
  return check, problem
end

local function readArguments()
  local operation, columns, width, problem = readHeader(ARGV[1] or '')
  if #ARGV == 0 then problem = 'expected 1 argument and 3 for each check' end
  if problem then return nil, nil, problem end
  local count = (#ARGV - 1) / width
  if count < 1 or count % 1 ~= 0 then
    return nil, nil, 'expected 1 argument and ' .. width .. ' for each check'
  end
  if count > MAX_CHECKS then return nil, nil, 'more than ' .. MAX_CHECKS .. ' checks' end
  if #KEYS > MAX_KEYS then return nil, nil, 'more than ' .. MAX_KEYS .. ' keys' end
  local checks = {}
  for i = 1, count do
    local check, wrong = readCheck(operation, columns, 2 + (i - 1) * width)
    if wrong then return nil, nil, 'check ' .. i .. ': ' .. wrong end
    checks[i] = check
  end
  return operation, checks, nil
end

-- lua/counters/records.lua
local FORMAT, EMPTY, HEADER = ' weir3;', '000000000000000 weir3;', 22
local IDLE_MS = 5000
local MAX_RECORDS, LONG = 500, 8192

local function readKeys(value)
  local values, keys = {}, {}
  if #KEYS > 1 then
    values = redis.call('MGET', unpack(KEYS))
  elseif value then
    values = { value }
  else
    values = { redis.pcall('GET', KEYS[1]) }
  end
  for i = 1, #KEYS do
    local text = type(values[i]) == 'string' and values[i] or ''
    if string.sub(text, 16, HEADER) ~= FORMAT then text = EMPTY end
    local _, _, header = string.find(text, '^(%d+) ')
    local expires = timeOf(header)
    local isDamaged = expires == 0 and text ~= EMPTY
    keys[i] = {
      text = text, expires = expires, newest = 0, isChanged = false, mustLook = isDamaged, after = HEADER,
    }
  end
  return keys
end

local function findRecord(key, check, now)
  local text = key.text
  local place, colon = string.find(text, string.sub(check.counter, 1, -2), 1, true)
  if not place then return nil end
  local past = string.find(text, ';', colon + 1, true)
  local last = (past or #text + 1) - 1
  local record = { name = string.sub(text, place, colon), size = last - place + 1, blockedUntil = 0, expiry = 0 }
  local letter, body = string.sub(text, colon + 1, colon + 1), string.sub(text, colon + 2, last)
  if not past then return record end
  if letter == 'm' or letter == 'n' then
    local _, _, untilText, usableText, owner = string.find(body, '^(%d+) (%d+) ([%l%d-]+)$')
    local untilMs, usableUntil = timeOf(untilText), timeOf(usableText)
    if untilMs > 0 and usableUntil > 0 then
      record.isTransfer = true
      record.expiry = untilMs
      record.usableUntil = usableUntil
      record.owner = record.expiry > now and owner or nil
      record.isWanted = letter == 'n'
    end
    return record
  end
  if letter == string.upper(check.letter) then
    local _, space, untilText = string.find(body, '^(%d+) ')
    record.blockedUntil = timeOf(untilText)
    body = string.sub(body, (space or #body) + 1)
  elseif letter ~= check.letter then
    return record
  end
  local algorithm = algorithmOf(check.letter)
  local _, _, digits = string.find(body, '^(%d+)')
  local reset = timeOf(digits)
  if reset > 0 then record.state = algorithm.parse(body, check) end
  if record.state then
    record.expiry = math.max(reset, record.blockedUntil)
  else
    record.blockedUntil = 0
  end
  return record
end

local function findAgain(key, record)
  local place = string.find(key.text, record.name, 1, true)
  return place
end

local function putRecord(key, record, text, expiry)
  local place, last = key.after, key.after - 1
  if record then
    local moved = findAgain(key, record)
    if moved >= key.after then
      place = moved
      last = moved + record.size - 1
    else
      key.text = string.sub(key.text, 1, moved - 1) .. string.sub(key.text, moved + record.size)
      place = key.after - record.size
      last = place - 1
    end
    if not (record.state or record.isTransfer) or text == '' then key.mustLook = true end
  end
  key.text = string.sub(key.text, 1, place - 1) .. text .. string.sub(key.text, last + 1)
  if string.sub(key.text, -1) ~= ';' then key.text = key.text .. ';' end
  key.after = place + #text
  key.isChanged = true
  if expiry > key.newest then key.newest = expiry end
end

local function expiryOf(text, from)
  local _, _, letter, first, second = string.find(text, '^;[%w_-]+:(%a)(%d+) (%d*)', from)
  local expiry = timeOf(first)
  if letter and letter < 'a' then expiry = math.max(expiry, timeOf(second)) end
  return expiry
end

local function liveRecords(text, expiredBy)
  local records, expiries, from = {}, {}, HEADER
  while from < #text do
    local past, expiry = string.find(text, ';', from + 1, true) or #text + 1, expiryOf(text, from)
    if expiry > expiredBy then
      records[#records + 1] = string.sub(text, from, past - 1)
      expiries[#expiries + 1] = expiry
    end
    from = past
  end
  while #records > MAX_RECORDS do
    local first = 1
    for i = 2, #expiries do
      if expiries[i] < expiries[first] then first = i end
    end
    table.remove(records, first)
    table.remove(expiries, first)
  end
  local live, newest = '', 0
  for first = 1, #records, 100 do
    live = live .. table.concat(records, '', first, math.min(first + 99, #records))
  end
  for i = 1, #expiries do newest = math.max(newest, expiries[i]) end
  return live .. ';', newest
end

local function textAndExpiry(key, now)
  local live, newest, expires = string.sub(key.text, HEADER), key.newest, key.expires
  if key.mustLook or #key.text > LONG then
    local kept, last = liveRecords(key.text, now - IDLE_MS)
    live = kept
    newest = last
    expires = 0
  end
  expires = math.max(expires, newest + IDLE_MS)
  local digits = string.format('%d', expires)
  return string.sub(EMPTY, 1, 15 - #digits) .. digits .. string.sub(FORMAT, 1, -2) .. live, expires
end

local function writeKeys(keys, now)
  for i = 1, #keys do
    local key = keys[i]
    if key.isChanged then
      local text, expires = textAndExpiry(key, now)
      key.newText = text
      key.expires = expires
    end
  end
  for i = 1, #keys do
    local key = keys[i]
    if key.isChanged and key.expires <= now then
      redis.call('DEL', KEYS[i])
    elseif key.isChanged then
      redis.call('SET', KEYS[i], key.newText, 'PXAT', string.format('%d', key.expires))
    end
  end
end

-- lua/counters/counting.lua
local function retryOf(check, judged, now)
  if check.cost > judged.capacity then return -1 end
  local algorithm = algorithmOf(check.letter)
  local waitMs = check.cost > judged.room and algorithm.wait(judged.state, now, check, check.cost) or 0
  return math.max(waitMs, judged.blockedUntil - now, 0)
end

local function judge(check, keys, now)
  local key = keys[check.key]
  local record = findRecord(key, check, now)
  local algorithm = algorithmOf(check.letter)
  local state, room, capacity, delay = algorithm.advance(record and record.state, now, check)
  local judged = {
    check = check, key = key, record = record, state = state, room = room, capacity = capacity, delay = delay,
    blockedUntil = record and record.blockedUntil or 0, owner = record and record.owner,
  }
  judged.retry = retryOf(check, judged, now)
  return judged
end

local function judgeAll(checks, keys, now)
  local all = {}
  for i = 1, #checks do all[i] = judge(checks[i], keys, now) end
  return all
end

local function charge(judged, units, now, past)
  local check = judged.check
  local algorithm = algorithmOf(check.letter)
  local state, reset = algorithm.charge(judged.state, units, now, check, past)
  judged.state = state
  judged.reset = reset
  judged.room = judged.room - units
  judged.isChanged = judged.isChanged or units ~= 0
end

local function expiryOfCounter(judged) return math.max(judged.reset, judged.blockedUntil) end

local function save(judged, now, isTake)
  if not judged.isChanged then return end
  local check, expiry, record = judged.check, expiryOfCounter(judged), judged.record
  local text = ''
  if expiry > now then
    local start = check.counter
    if judged.blockedUntil > now then
      start = string.sub(start, 1, -2) .. string.upper(check.letter) .. string.format('%d ', judged.blockedUntil)
    end
    text = start .. algorithmOf(check.letter).store(judged.state, judged.reset)
  end
  if text == '' and not record then return end
  putRecord(judged.key, record, text, text ~= '' and expiry or 0)
  if record and not isTake and expiry < record.expiry then judged.key.mustLook = true end
end

local function remainingOf(judged, now)
  return judged.blockedUntil > now and 0 or math.max(0, judged.room)
end

local function withinDebt(judged) return math.max(0, math.min(judged.check.cost, judged.room + judged.capacity)) end

local function amend(judged, units, past, now, reply)
  if judged.owner then
    reply[#reply + 1] = 0
    reply[#reply + 1] = judged.record.expiry
    return
  end
  charge(judged, units, now, past)
  save(judged, now, false)
  local algorithm = algorithmOf(judged.check.letter)
  local state, room = algorithm.advance(judged.state, now, judged.check)
  judged.state = state
  judged.room = room
  reply[#reply + 1] = remainingOf(judged, now)
  reply[#reply + 1] = expiryOfCounter(judged)
end

-- lua/counters/operations.lua
local operations = {}

-- lua/counters/operations/take.lua
local function addOutcome(reply, judged, now, granted)
  local size = #reply
  if judged.owner then
    reply[size + 1] = '>' .. judged.owner
    reply[size + 2] = 0
    reply[size + 3] = judged.record.expiry
    reply[size + 4] = math.max(0, judged.record.usableUntil - now)
    reply[size + 5] = 0
    reply[size + 6] = 0
    return
  end
  reply[size + 1] = judged.fits and 1 or 0
  reply[size + 2] = remainingOf(judged, now)
  reply[size + 3] = expiryOfCounter(judged)
  reply[size + 4] = judged.retry
  reply[size + 5] = granted
  reply[size + 6] = judged.delay
end

local function deny(judged, now)
  local check = judged.check
  local canEverFit = judged.retry >= 0
  charge(judged, check.countsDenied and canEverFit and withinDebt(judged) or 0, now)
  if not canEverFit then return end
  if check.blockMs and judged.blockedUntil <= now then
    judged.blockedUntil = now + check.blockMs
    judged.isChanged = true
  end
  judged.retry = retryOf(check, judged, now)
end

operations.take = function(checks, keys, now)
  local all, passes, reply = judgeAll(checks, keys, now), true, { now }
  for i = 1, #all do
    all[i].fits = not all[i].owner and all[i].retry == 0
    passes = passes and not all[i].owner and (all[i].fits or all[i].check.isShadow)
  end
  for i = 1, #all do
    local judged, granted = all[i], 0
    local check = judged.check
    local isSpared = not passes and (judged.fits or check.isShadow)
    if judged.owner then
    elseif isSpared then
      charge(judged, 0, now)
    elseif judged.fits then
      granted = math.min(check.lease or 0, judged.room - check.cost)
      charge(judged, check.cost + granted, now)
    else
      deny(judged, now)
    end
    if not judged.owner then save(judged, now, true) end
    addOutcome(reply, judged, now, granted)
  end
  return reply
end

-- lua/counters/operations/peek.lua
operations.peek = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    all[i].fits = all[i].retry == 0
    charge(all[i], 0, now)
    addOutcome(reply, all[i], now, 0)
  end
  return reply
end

-- lua/counters/operations/refund.lua
operations.refund = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local check = all[i].check
    amend(all[i], -check.cost, { at = check.at or now, kept = check.kept or 0 }, now, reply)
  end
  return reply
end

-- lua/counters/operations/settle.lua
operations.settle = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local judged, check = all[i], all[i].check
    local units = withinDebt(judged)
    if check.most then units = math.max(0, math.min(units, check.most - judged.capacity + judged.room)) end
    amend(judged, units, { at = check.at, kept = 0 }, now, reply)
    reply[#reply + 1] = judged.owner and 0 or units
  end
  return reply
end

-- lua/counters/operations/renew.lua
operations.renew = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local judged = all[i]
    local held = not judged.owner and judged.state.held or 0
    if held > 0 then
      charge(judged, held, now)
      save(judged, now, false)
    end
    reply[i + 1] = held > 0 and 1 or 0
  end
  return reply
end

-- lua/counters/operations/transfer.lua
local function putTransfer(key, check, record, letter, untilMs, usableUntil, owner)
  local name = string.sub(check.counter, 1, -2)
  putRecord(key, record, string.format('%s%s%d %d %s', name, letter, untilMs, usableUntil, owner), untilMs)
end

local function isChargedElsewhere(check, judged, used, now)
  local at = check.at or now
  local isSameWindow = now - now % check.windowMs == at - at % check.windowMs
  return check.charged and isSameWindow and judged.blockedUntil <= now and used <= check.charged
end

local function transferOne(check, keys, now)
  local judged = judge(check, keys, now)
  local key, record, owner = judged.key, judged.record, judged.owner
  if owner and (owner ~= check.owner or record.isWanted) then
    return 'refused', 0, record.expiry - now + (owner == check.owner and check.windowMs or 0)
  end
  local inUseUntil = record and record.state and record.expiry + IDLE_MS or 0
  if inUseUntil > now then
    local used = math.max(0, math.min(judged.capacity, judged.capacity - judged.room))
    if judged.blockedUntil > now then used = 0 end
    if not isChargedElsewhere(check, judged, used, now) then return 'in-use', used, inUseUntil - now end
  end
  local usableUntil = now + check.term
  local untilMs = math.max(owner and record.expiry or 0, usableUntil + check.hold)
  putTransfer(key, check, record, 'm', untilMs, usableUntil, check.owner)
  if record and untilMs < record.expiry then key.mustLook = true end
  return 'transferred', untilMs, 0
end

operations.transfer = function(checks, keys, now)
  local reply = { now }
  for i = 1, #checks do
    local kind, first, second = transferOne(checks[i], keys, now)
    reply[3 * i - 1] = kind
    reply[3 * i] = first
    reply[3 * i + 1] = second
  end
  return reply
end

-- lua/counters/operations/recall.lua
operations.recall = function(checks, keys, now)
  local reply = { now }
  for i = 1, #checks do
    local check = checks[i]
    local key = keys[check.key]
    local record = findRecord(key, check, now)
    local isNew = record and record.owner and not record.isWanted
    if isNew then putTransfer(key, check, record, 'n', record.expiry, record.usableUntil, record.owner) end
    reply[i + 1] = isNew and 1 or 0
  end
  return reply
end

-- lua/counters/run.lua
local operation, checks, problem = readArguments()
if problem then return { err = 'WEIR_BAD_ARGUMENT ' .. problem } end
time = time or redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local keys = readKeys(value)
local run = operations[operation]
local reply = run(checks, keys, now)
writeKeys(keys, now)
return reply
