-- concurrency: at most `limit` seats are held at once. A request takes as many seats as its cost, under one id (16
-- letters, digits, - or _). They expire `windowMs` after they were taken or last renewed. Taking again with the same id
-- replaces the seats of that id. Refunds and renewals use the id.
--
-- State: the seats by expiry. A seat is a record of 23 bytes: its id, then its expiry in 7 bytes. Each of these carries
-- 7 bits and has the eighth bit set, so no seat contains a character that ends the counter's record.

--@letter h
--@state seatsText

local ID, RECORD = 16, 23

local function expiry(seats, i)
  local a, b, c, d, e, f, g = string.byte(seats, (i - 1) * RECORD + ID + 1, i * RECORD)
  local high = ((a - 128) * 128 + b - 128) * 128 + c - 128
  return high * 268435456 + (((d - 128) * 128 + e - 128) * 128 + f - 128) * 128 + g - 128
end

local function record(id, value)
  local low = value % 268435456
  local high = (value - low) / 268435456
  return id .. string.char(
    128 + math.floor(high / 16384), 128 + math.floor(high / 128) % 128, 128 + high % 128,
    128 + math.floor(low / 2097152), 128 + math.floor(low / 16384) % 128,
    128 + math.floor(low / 128) % 128, 128 + low % 128
  )
end

-- Number of seats that expire at `moment` or before.
local function endedBy(seats, moment)
  local low, high = 1, #seats / RECORD + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if expiry(seats, middle) <= moment then low = middle + 1 else high = middle end
  end
  return low - 1
end

-- The seats without those of one id, and how many that id held. Seats of one id stand together: they were written at
-- once, with one expiry.
local function without(seats, id)
  local from = 1
  while true do
    local at = string.find(seats, id, from, true)
    if not at then return seats, 0 end
    local offset = at - 1
    if offset % RECORD == 0 then
      local past = at
      while string.sub(seats, past, past + ID - 1) == id do past = past + RECORD end
      return string.sub(seats, 1, at - 1) .. string.sub(seats, past), (past - at) / RECORD
    end
    from = at + 1
  end
end

local function insert(seats, id, units, moment)
  local place = endedBy(seats, moment) * RECORD
  return string.sub(seats, 1, place) .. string.rep(record(id, moment), units) .. string.sub(seats, place + 1)
end

local function read(now, limit, windowMs, id, cost, seats)
  seats = seats and string.sub(seats, endedBy(seats, now) * RECORD + 1) or ''
  local others, held = without(seats, id)
  local room = limit - #others / RECORD
  local wait = cost > room and cost <= limit and expiry(others, cost - room) - now
  return room, limit, wait, seats, held
end

local function charge(units, at, now, limit, windowMs, id, seats)
  if units ~= 0 then
    local others = without(seats, id)
    seats = others
  end
  if units > 0 then
    local all = insert(seats, id, units, now + windowMs)
    seats = all
  end
  local count = #seats / RECORD
  return count > 0 and expiry(seats, count) or now, seats
end

return read, charge
