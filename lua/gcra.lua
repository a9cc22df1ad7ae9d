-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- State: a, whole ms of TAT; b, the rest in 1/limit of a ms; c, that limit. So TAT is exact, though T is rarely whole;
-- and if the limit has changed since, TAT is brought to where as many units are ahead of now as before.

--@read
capacity = extra or limit
local full = capacity * windowMs
if not a or a < now then a, b = now, 0 end
local ahead = (a - now) * (c and c > 0 and c or limit) + b
if c ~= limit then
  b, c = ahead % limit, limit
  a = now + (ahead - b) / limit
end
if ahead > 2 * full then
  -- No charge puts TAT that far ahead: the clock went back. It starts again with nothing left.
  ahead, b = full, full % limit
  a = now + (full - b) / limit
end
local free = full - ahead
room = (free - free % windowMs) / windowMs
if cost > room then
  local missing = cost * windowMs - free
  wait = (missing + -missing % limit) / limit
end

--@charge
-- The window of a charge is the time W after it: later, nothing is given back. What is settled later is a debt like any other.
if not chargedAt or units > 0 or now - chargedAt < windowMs then
  local moved = b + units * windowMs
  b = moved % limit
  a = a + (moved - b) / limit
  if a < now then a, b = now, 0 end
end
resetAt = b > 0 and a + 1 or a

--@relieve
-- What the other region was charged has passed there since: only the rest is still with it.
local taken = relief * windowMs - math.max(0, now - since) * fullLimit
if taken > 0 then
  local moved = b - taken
  b = moved % limit
  a = a + (moved - b) / limit
  if a < now then a, b = now, 0 end
end
