-- concurrency: at most `limit` units held at once. Whoever takes some holds a lease: an id (`extra`, 16
-- characters) and an expiry, `windowMs` after it was taken or last renewed. Taking with an id that is held
-- already replaces that lease. Giving back and renewing go by the id.
--
-- State: { the leases, one record of 22 bytes for each unit: id, then expiry in 6 bytes }, by expiry
local concurrency = { code = 8 }
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

function concurrency.advance(state, now, limit, windowMs, extra)
  local leases = state[1] or ''
  state[1] = string.sub(leases, endedBy(leases, now) * RECORD + 1)
  local others, held = without(state[1], extra)
  state.held = held
  return limit - #others / RECORD, limit
end

function concurrency.wait(state, now, limit, windowMs, extra, cost)
  local others = without(state[1], extra)
  return expiry(others, #others / RECORD + cost - limit) - now
end

function concurrency.charge(state, units, at, now, limit, windowMs, extra)
  if units ~= 0 then state[1] = without(state[1], extra) end
  if units > 0 then state[1] = insert(state[1], extra, units, now + windowMs) end
  local count = #state[1] / RECORD
  return count > 0 and expiry(state[1], count) or now
end

return concurrency
