-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- State: whole ms of TAT, the rest in 1/limit of a ms. So TAT is exact, though T is rarely whole.
local function read(now, limit, windowMs, extra, cost, tat, rest)
  local burst = extra or limit
  local full = burst * windowMs
  if not tat or tat < now then tat, rest = now, 0 end
  local ahead = (tat - now) * limit + rest
  if ahead > 2 * full then
    -- No charge puts TAT that far ahead: the clock went back. It starts again with nothing left.
    ahead, rest = full, full % limit
    tat = now + (full - rest) / limit
  end
  local free = full - ahead
  local missing = cost * windowMs - free
  local wait = missing > 0 and (missing + -missing % limit) / limit
  return (free - free % windowMs) / windowMs, burst, wait, tat, rest
end

local function charge(units, at, now, limit, windowMs, extra, tat, rest)
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - at < windowMs then
    local moved = rest + units * windowMs
    rest = moved % limit
    tat = tat + (moved - rest) / limit
    if tat < now then tat, rest = now, 0 end
  end
  return rest > 0 and tat + 1 or tat, tat, rest
end

return read, charge, 6
