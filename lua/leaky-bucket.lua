-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. What does not fit is denied. Whoever throttles lets a request wait
-- until all that was poured in before it has leaked out: then they leave at an even pace.
--
-- State: { content, epoch ms at which it was so }
-- The content is in units times W: then a millisecond leaks exactly `limit`, and nothing is ever rounded.
local leakyBucket = { code = 5 }

function leakyBucket.advance(state, now, limit, windowMs, extra)
  local size = extra or limit
  if not state[1] then
    state[1], state[2] = 0, now
  elseif now > state[2] then
    state[1], state[2] = math.max(0, state[1] - (now - state[2]) * limit), now
  elseif state[2] - now > windowMs then
    -- The clock went back by more than a window: go on from here instead of standing still so long.
    state[2] = now
  end
  local queueMs = state[2] - now + math.ceil(state[1] / limit)
  return math.floor((size * windowMs - state[1]) / windowMs), size, queueMs
end

function leakyBucket.wait(state, now, limit, windowMs, extra, cost)
  local over = state[1] + cost * windowMs - (extra or limit) * windowMs
  return state[2] - now + math.ceil(over / limit)
end

function leakyBucket.charge(state, units, at, now, limit, windowMs)
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - at < windowMs then state[1] = math.max(0, state[1] + units * windowMs) end
  return state[2] + math.ceil(state[1] / limit)
end

return leakyBucket
