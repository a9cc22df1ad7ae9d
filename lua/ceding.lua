-- ceding: decides whether this region cedes its part of the counter to the region that asks, or wants it back.

-- A region that has counted nothing lately cedes its part. A region that has counted cedes it, too, if the home has
-- charged itself with as many units in the same window. A region never takes the part back early: it waits.
local letter, usable, used = 'm', usableUntil, math.min(capacity, capacity - room)
local isInUse = asking and not cededUntil and expiryBefore and expiryBefore + IDLE_MS > now
fits = false
retryMs = 0
room = isInUse and used or 0
if operation == 'reclaim' then
  letter = 'n'
  fits = home and not isWanted
elseif home and (home ~= asking or isWanted) then
  retryMs = cededUntil - now + (home == asking and windowMs or 0)
elseif isInUse and (used > want or want == 0 or blockedUntil > now
  or now - now % windowMs ~= chargedAt - chargedAt % windowMs) then
  retryMs = expiryBefore + IDLE_MS - now
else
  fits = true
  room = 0
  usable = now + termMs
  cededUntil = math.max(home and cededUntil or 0, usable + holdMs)
end
expiry = (home or fits) and cededUntil or now
if fits then record = format('%s%s%d %d %s', sub(counter, 1, -2), letter, expiry, usable, home or asking) end
changesAt = place
delayMs = nil
isNotable = true
