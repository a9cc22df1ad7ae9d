-- token-bucket: a bucket holds up to `extra` tokens (the limit if not given) and is refilled continuously at
-- limit / windowMs tokens per millisecond. A request takes its cost out of it.
--
-- State: `missing`, the tokens that the bucket lacks until it is full; `rate`, the limit that refills them. `missing`
-- holds at the moment `missingAt`, which follows from `reset`: at `reset` the bucket is full. If limit or burst change,
-- tokens that were taken are still missing. `missing` is in tokens times W, so that a millisecond refills exactly
-- `limit` and nothing is ever rounded.

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
    -- The clock went back by more than a window: go on from here instead of standing still for so long.
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
-- A refund gives back only tokens of that charge that are certainly still missing. The others may have been refilled,
-- and the tokens missing now may belong to another charge. A refund works for the time W. A settlement is a debt like
-- any other.
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
