-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. What does not fit is denied. Whoever throttles lets a request wait
-- until all that was poured in before it has leaked out: then they leave at an even pace.
--
-- State: content, epoch ms at which it was so.
-- The content is in units times W: then a millisecond leaks exactly `limit`, and nothing is ever rounded.
local function read(now, limit, windowMs, extra, cost, content, at)
  local size = extra or limit
  if not content then
    content, at = 0, now
  elseif now > at then
    content, at = math.max(0, content - (now - at) * limit), now
  elseif at - now > windowMs then
    -- The clock went back by more than a window: go on from here instead of standing still so long.
    at = now
  end
  local free = size * windowMs - content
  local missing = cost * windowMs - free
  local wait = missing > 0 and at - now + (missing + -missing % limit) / limit
  local delayMs = at - now + (content + -content % limit) / limit
  return (free - free % windowMs) / windowMs, size, wait, content, at, nil, delayMs
end

local function charge(units, chargedAt, now, limit, windowMs, extra, content, at)
  -- The window of a charge is the time W after it; given back later, it gives nothing.
  if units > 0 or now - chargedAt < windowMs then content = math.max(0, content + units * windowMs) end
  return at + (content + -content % limit) / limit, content, at
end

return read, charge, 5
