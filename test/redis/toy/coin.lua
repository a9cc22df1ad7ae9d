-- coin: at most `limit` units in each window of `windowMs`, which it knows by their numbers.
--
-- State: the number of the current window, and the units used in it.

--@letter o
--@state number used

--@read
local current = (now - now % windowMs) / windowMs
if not number or used == 0 or number < current or number > current + 1 then
  number = current
  used = 0
end
room = limit - used
capacity = limit
wait = (number + 1) * windowMs - now

--@charge
if not chargedAt or (chargedAt - chargedAt % windowMs) / windowMs == number then used = used + units end
if used < 0 then used = 0 end
reset = used > 0 and (number + 1) * windowMs or now
