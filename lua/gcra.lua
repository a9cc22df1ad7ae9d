-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- State: { whole ms of TAT, the rest in 1/limit of a ms }: TAT kept exactly, though T is rarely whole.
local gcra = { code = 6 }

function gcra.advance(state, now, limit, windowMs, extra)
  local burst = extra or limit
  local full = burst * windowMs
  if not state[1] or state[1] < now then state[1], state[2] = now, 0 end
  local ahead = (state[1] - now) * limit + state[2]
  if ahead > 2 * full then
    -- No charge puts TAT that far ahead: the clock went back. It starts again with nothing left.
    ahead = full
    state[1], state[2] = now + math.floor(full / limit), full % limit
  end
  return math.floor((full - ahead) / windowMs), burst
end

function gcra.wait(state, now, limit, windowMs, extra, cost)
  local ahead = (state[1] - now) * limit + state[2]
  return math.ceil((ahead + cost * windowMs - (extra or limit) * windowMs) / limit)
end

function gcra.charge(state, units, at, now, limit, windowMs)
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - at < windowMs then
    local rest = state[2] + units * windowMs
    state[1] = state[1] + math.floor(rest / limit)
    state[2] = rest % limit
    if state[1] < now then state[1], state[2] = now, 0 end
  end
  return state[1] + (state[2] > 0 and 1 or 0)
end

return gcra
