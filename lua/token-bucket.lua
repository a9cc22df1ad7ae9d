-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: `missing`, what a full bucket has more, as of the moment `missingAt`; `rate`, the limit by which it is
-- refilled from then on. If limit or burst change, what was taken is still missing.
-- `missing` is in tokens times W: then a millisecond refills exactly `limit`, and nothing is ever rounded.

--@state missing missingAt rate

--@read
capacity = extra or limit
if not missing then
  missing = 0
  missingAt = now
elseif now > missingAt then
  missing = missing - (now - missingAt) * rate
  if missing < 0 then missing = 0 end
  missingAt = now
elseif missingAt - now > windowMs then
  -- The clock went back by more than a window: go on from here instead of standing still so long.
  missingAt = now
end
rate = limit
local rest = missing % windowMs
room = capacity - (missing - rest) / windowMs - (rest > 0 and 1 or 0)
if cost > room then
  local lacking = missing - (capacity - cost) * windowMs
  local part = lacking % limit
  wait = missingAt - now + (lacking - part) / limit + (part > 0 and 1 or 0)
end

--@charge
-- A charge can be given back for the time W after it. What is settled later is a debt like any other.
if not chargedAt or units > 0 or now - chargedAt < windowMs then
  missing = missing + units * windowMs
  if missing < 0 then missing = 0 end
end
local part = missing % limit
reset = missingAt + (missing - part) / limit + (part > 0 and 1 or 0)
