-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch.
--
-- Simplest and cheapest, but two windows meet: up to twice the limit can pass around their border.
--
-- State: a, start of the window (epoch ms); b, units used in it.
-- The window after now's can only come from a clock that went back: it stays the current one. One further
-- ahead counts as none, so that nobody is locked out for longer than a window.

--@read
local start = now - now % windowMs
if not a or a < start or a > start + windowMs then a, b = start, 0 end
room, capacity, wait = limit - b, limit, a + windowMs - now

--@charge
-- What comes afterwards (a refund, a settlement) moves only the window of the charge.
if not chargedAt or chargedAt >= a and chargedAt < a + windowMs then b = b + units end
if b < 0 then b = 0 end
resetAt = b > 0 and a + windowMs or now

--@relieve
-- In another window the other region has charged nothing for this one.
if since >= a and since < a + windowMs then b = math.max(0, b - relief) end
