-- concurrency: at most `limit` seats are held at once. A request takes as many seats as its cost, under one id (16
-- letters, digits, - or _). They expire `windowMs` after they were taken or last renewed. Taking again with the same id
-- replaces the seats of that id. Refunds and renewals use the id.
--
-- Record: when the last seat expires; the seats by expiry. A seat is 23 bytes: its id, then its expiry in 7 bytes. Each
-- of these carries 7 bits and has the eighth bit set, so no seat contains a character that ends the record.

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

  -- Number of seats that expire at `moment` or before.
  local function endedBy(seats, moment)
    local low, high = 1, #seats / SEAT + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if expiry(seats, middle) <= moment then low = middle + 1 else high = middle end
    end
    return low - 1
  end

  -- The seats without those of one id, and how many that id held. Seats of one id stand together: they were written at
  -- once, with one expiry.
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
