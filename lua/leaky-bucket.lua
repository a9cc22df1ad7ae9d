-- leaky-bucket: requests are poured into a bucket of size `extra` (the limit if not given) that leaks at
-- limit / windowMs units per millisecond. What does not fit is denied. Whoever throttles lets a request wait
-- until all that was poured in before it has leaked out: then they leave at an even pace.
--
-- State: a, the content; b, epoch ms at which it was so; c, the limit by which it leaks from then on.
-- The content is in units times W: then a millisecond leaks exactly `limit`, and nothing is ever rounded.

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
delayMs = b - now + (a + -a % limit) / limit

--@charge
-- The window of a charge is the time W after it: later, nothing is given back. What is settled later is a debt like any other.
if not chargedAt or units > 0 or now - chargedAt < windowMs then a = a + units * windowMs end
if a < 0 then a = 0 end
resetAt = b + (a + -a % limit) / limit

--@relieve
-- What the other region was charged has leaked out there since: only the rest is still with it.
local taken = relief * windowMs - math.max(0, now - since) * fullLimit
if taken > 0 then a = math.max(0, a - taken) end
