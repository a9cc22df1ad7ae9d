-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: a, what is missing from a full bucket; b, epoch ms at which it was so; c, the limit by which it is refilled
-- from then on. If limit or burst change, what was taken is still missing.
-- It is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.

--@read
capacity = extra or limit
if not a then
  a, b = 0, now
elseif now > b then
  a, b = a - (now - b) * (c > 0 and c or limit), now
  if a < 0 then a = 0 end
elseif b - now > windowMs then
  -- The clock went back by more than a window: go on from here instead of standing still so long.
  b = now
end
c = limit
local free = capacity * windowMs - a
room = (free - free % windowMs) / windowMs
if cost > room then
  local missing = cost * windowMs - free
  wait = b - now + (missing + -missing % limit) / limit
end

--@charge
-- The window of a charge is the time W after it: later, nothing is given back. What is settled later is a debt like any other.
if not chargedAt or units > 0 or now - chargedAt < windowMs then a = a + units * windowMs end
if a < 0 then a = 0 end
resetAt = b + (a + -a % limit) / limit

--@relieve
-- What the other region was charged has been refilled there since: only the rest is still with it.
local taken = relief * windowMs - math.max(0, now - since) * fullLimit
if taken > 0 then a = math.max(0, a - taken) end
