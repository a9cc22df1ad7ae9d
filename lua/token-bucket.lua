-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: { level, epoch ms at which it was so }
-- The level is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.
local tokenBucket = { code = 4 }

function tokenBucket.advance(state, now, limit, windowMs, extra)
  local burst = extra or limit
  local full = burst * windowMs
  if not state[1] then
    state[1], state[2] = full, now
  elseif now > state[2] then
    state[1], state[2] = state[1] + (now - state[2]) * limit, now
  elseif state[2] - now > windowMs then
    -- The clock went back by more than a window: go on from here instead of standing still so long.
    state[2] = now
  end
  state[1] = math.min(full, state[1])
  return math.floor(state[1] / windowMs), burst
end

function tokenBucket.wait(state, now, limit, windowMs, extra, cost)
  return state[2] - now + math.ceil((cost * windowMs - state[1]) / limit)
end

function tokenBucket.charge(state, units, at, now, limit, windowMs, extra)
  local full = (extra or limit) * windowMs
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - at < windowMs then state[1] = math.min(full, state[1] - units * windowMs) end
  return state[2] + math.ceil((full - state[1]) / limit)
end

return tokenBucket
