-- fixed-window: at most `limit` units in each window of `windowMs`. Windows are aligned to the epoch, or are those of a
-- calendar, whose borders the check names.
--
-- The simplest and cheapest algorithm, but up to twice the limit can pass around the border of two windows.
--
-- State: the units used in the window that ends at `reset`.
-- A stored window ahead of the current one means that the clock went back. If it is the next window, it stays in force.
-- If it is further ahead, the script ignores it, so that nobody is locked out for longer than a window.

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
-- After a change of borders, a stored window may end within the current one. It ends at its own end.
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
