-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: a, the level; b, epoch ms at which it was so.
-- The level is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.

--@read
capacity = extra or limit
local full = capacity * windowMs
if not a then
  a, b = full, now
elseif now > b then
  a, b = a + (now - b) * limit, now
elseif b - now > windowMs then
  -- The clock went back by more than a window: go on from here instead of standing still so long.
  b = now
end
if a > full then a = full end
room = (a - a % windowMs) / windowMs
if cost > room then
  local missing = cost * windowMs - a
  wait = b - now + (missing + -missing % limit) / limit
end

--@charge
local full = (extra or limit) * windowMs
-- The window of a charge is the time W after it: later, nothing is given back. What is settled later is a debt like any other.
if not chargedAt or units > 0 or now - chargedAt < windowMs then a = a - units * windowMs end
if a > full then a = full end
local missing = full - a
resetAt = b + (missing + -missing % limit) / limit
