-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: level, epoch ms at which it was so.
-- The level is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.
local function read(now, limit, windowMs, extra, cost, level, at)
  local burst = extra or limit
  local full = burst * windowMs
  if not level then
    level, at = full, now
  elseif now > at then
    level, at = level + (now - at) * limit, now
  elseif at - now > windowMs then
    -- The clock went back by more than a window: go on from here instead of standing still so long.
    at = now
  end
  if level > full then level = full end
  local missing = cost * windowMs - level
  local wait = missing > 0 and at - now + (missing + -missing % limit) / limit
  return (level - level % windowMs) / windowMs, burst, wait, level, at
end

local function charge(units, chargedAt, now, limit, windowMs, extra, level, at)
  local full = (extra or limit) * windowMs
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - chargedAt < windowMs then level = level - units * windowMs end
  if level > full then level = full end
  local missing = full - level
  return at + (missing + -missing % limit) / limit, level, at
end

return read, charge, 4
