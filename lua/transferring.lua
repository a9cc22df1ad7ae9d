-- transferring: decides whether this region transfers its part of the counter to the region that asks, or wants it back.

-- A region that has counted nothing lately transfers its part. A region that has counted transfers it, too, if the owner has
-- charged itself with as many units in the same window. A region never takes the part back early: it waits.
local letter, usable, used = 'm', usableUntil, math.min(capacity, capacity - room)
local isInUse = asking and not transferredUntil and expiryBefore and expiryBefore + IDLE_MS > now
fits = false
retryMs = 0
room = isInUse and used or 0
if operation == 'recall' then
  letter = 'n'
  fits = owner and not isWanted
elseif owner and (owner ~= asking or isWanted) then
  retryMs = transferredUntil - now + (owner == asking and windowMs or 0)
elseif isInUse and (used > want or want == 0 or blockedUntil > now
  or now - now % windowMs ~= chargedAt - chargedAt % windowMs) then
  retryMs = expiryBefore + IDLE_MS - now
else
  fits = true
  room = 0
  usable = now + termMs
  transferredUntil = math.max(owner and transferredUntil or 0, usable + holdMs)
end
expiry = (owner or fits) and transferredUntil or now
if fits then record = format('%s%s%d %d %s', sub(counter, 1, -2), letter, expiry, usable, owner or asking) end
changesAt = place
delayMs = nil
isNotable = true
