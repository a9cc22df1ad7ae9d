-- fixed-window: at most `limit` units in each window of `windowMs`; windows are aligned to the epoch.
--
-- Simplest and cheapest, but two windows meet: up to twice the limit can pass around their border.
--
-- State: the units used in the window that ends at `reset`.
-- A window ahead of the current one comes from a clock that went back. If it is the next one, it stays in
-- force; one further ahead counts as none, so that nobody is locked out for longer than a window.

--@letter f
--@state used
--@keeps reset

--@read
local start = now - now % windowMs
if not reset or used == 0 or reset <= start or reset > start + 2 * windowMs then
  reset = start + windowMs
  used = 0
end
room = limit - used
capacity = limit
wait = reset - now

--@charge
-- A refund or a settlement moves only the window of the charge.
if not chargedAt or chargedAt >= reset - windowMs and chargedAt < reset then used = used + units end
if used <= 0 then
  used = 0
  reset = now
end
