-- concurrency: at most `limit` units held at once. Whoever takes some holds a lease: an id (`extra`, 16
-- characters) and an expiry, `windowMs` after it was taken or last renewed. Taking with an id that is held
-- already replaces that lease. Giving back and renewing go by the id.
--
-- State: the leases by expiry, one record of 22 bytes for each unit: id, then expiry in 6 bytes.
local ID, RECORD = 16, 22

local function expiry(leases, i)
  local a, b, c, d, e, f = string.byte(leases, (i - 1) * RECORD + ID + 1, i * RECORD)
  return ((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f
end

local function record(id, value)
  local low = value % 16777216
  local high = (value - low) / 16777216
  return id .. string.char(
    math.floor(high / 65536), math.floor(high / 256) % 256, high % 256,
    math.floor(low / 65536), math.floor(low / 256) % 256, low % 256
  )
end

-- Number of records that expire before `moment` or then.
local function endedBy(leases, moment)
  local low, high = 1, #leases / RECORD + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    if expiry(leases, middle) <= moment then low = middle + 1 else high = middle end
  end
  return low - 1
end

-- The leases without those of one id, and how many units it held.
local function without(leases, id)
  local from, held = 1, 0
  while true do
    local at = string.find(leases, id, from, true)
    if not at then return leases, held end
    if (at - 1) % RECORD == 0 then
      leases = string.sub(leases, 1, at - 1) .. string.sub(leases, at + RECORD)
      from, held = at, held + 1
    else
      from = at + 1
    end
  end
end

local function insert(leases, id, units, moment)
  local place = endedBy(leases, moment) * RECORD
  return string.sub(leases, 1, place) .. string.rep(record(id, moment), units) .. string.sub(leases, place + 1)
end

local function read(now, limit, windowMs, id, cost, leases)
  leases = leases and string.sub(leases, endedBy(leases, now) * RECORD + 1) or ''
  local others, held = without(leases, id)
  local room = limit - #others / RECORD
  local wait = cost > room and cost <= limit and expiry(others, cost - room) - now
  return room, limit, wait, leases, held
end

local function charge(units, at, now, limit, windowMs, id, leases, held)
  if units ~= 0 then leases = without(leases, id) end
  if units > 0 then leases = insert(leases, id, units, now + windowMs) end
  local count = #leases / RECORD
  return count > 0 and expiry(leases, count) or now, leases, math.max(0, units)
end

-- Refused before it gets here: a lease is held where it was taken.
local function relieve(relief, since, fullLimit, now, limit, windowMs, id, leases, held)
  return leases, held
end

return read, charge, relieve
