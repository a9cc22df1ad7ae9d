-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: `missing`, what a full bucket has more; `rate`, the limit by which it is refilled from then on. It was so much
-- at the moment `missingAt`, which follows from `reset`: by then all of it is refilled. If limit or burst change, what
-- was taken is still missing.
-- `missing` is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.

--@letter t
--@state missing rate
--@local fastest missingAt

--@read
capacity = extra or limit
if not missing then
  missing = 0
  missingAt = now
else
  local part = missing % rate
  missingAt = reset - (missing - part) / rate
  if part > 0 then missingAt = missingAt - 1 end
  if now > missingAt then
    missing = missing - (now - missingAt) * rate
    if missing < 0 then missing = 0 end
    missingAt = now
  elseif missingAt - now > windowMs then
    -- The clock went back by more than a window: go on from here instead of standing still so long.
    missingAt = now
  end
end
fastest = rate and rate > limit and rate or limit
rate = limit
local rest = missing % windowMs
room = capacity - (missing - rest) / windowMs - (rest > 0 and 1 or 0)
if cost > room then
  local lacking = missing - (capacity - cost) * windowMs
  local part = lacking % limit
  wait = missingAt - now + (lacking - part) / limit + (part > 0 and 1 or 0)
end

--@charge
-- What is given back is what is certain to be still missing of that charge: the rest may have been refilled, and what is
-- missing now be another's. It can be given back for the time W. What is settled later is a debt like any other.
local change = units * windowMs
if chargedAt and units < 0 then
  local ago = now > chargedAt and now - chargedAt or 0
  local certain = ago < windowMs and (want - units) * windowMs - ago * fastest or 0
  change = -math.max(0, math.min(-change, certain))
end
missing = missing + change
if missing < 0 then missing = 0 end
local part = missing % limit
reset = missingAt + (missing - part) / limit + (part > 0 and 1 or 0)
