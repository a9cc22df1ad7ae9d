-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch, or those of a
-- calendar, whose borders the check names.
--
-- Simplest and cheapest, but two windows meet: up to twice the limit can pass around their border.
--
-- State: the units used in the window that ends at `reset`.
-- A window ahead of the current one comes from a clock that went back. If it is the next one, it stays in
-- force; one further ahead counts as none, so that nobody is locked out for longer than a window.

--@letter f
--@state used
--@keeps reset
--@local windowStart

--@read
local start, lengthMs, nextMs = now - now % windowMs, windowMs, windowMs
if borderAfter then
  -- Beyond the last border, windows are as long as the last one.
  if now < borderStart then
    start = borderBefore
    lengthMs = borderStart - borderBefore
    nextMs = borderEnd - borderStart
  elseif now < borderEnd then
    start = borderStart
    lengthMs = borderEnd - borderStart
    nextMs = borderAfter - borderEnd
  else
    local since = now - borderEnd
    lengthMs = borderAfter - borderEnd
    nextMs = lengthMs
    start = now - since % lengthMs
  end
end
windowStart = start
-- Borders that were changed can leave a window that ends within the one of now: it is over at its own end.
if not reset or used == 0 or reset <= start or reset <= now or reset > start + lengthMs + nextMs then
  reset = start + lengthMs
  used = 0
elseif reset > start + lengthMs then
  windowStart = start + lengthMs
end
room = limit - used
capacity = limit
wait = reset - now

--@charge
-- A refund or a settlement moves only the window of the charge.
if not chargedAt or chargedAt >= windowStart and chargedAt < reset then used = used + units end
if used <= 0 then
  used = 0
  reset = now
end
