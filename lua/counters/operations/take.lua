-- take: charges all checks, or none if one of them denies. The straight part before answers plain takes itself.
--
-- ARGV   arguments.lua describes the columns. This operation also has
--          lease    units to lease beyond the cost, as far as there is room
-- reply  integers: now, then for each check
--          allowed    1 or 0, by this check alone; or '>' and the region that the counter was transferred to
--          remaining  units that would still pass now
--          resetAt    epoch ms at which the whole limit is free again; at which a transferred counter counts again
--          retryMs    wait until the cost fits; 0 if it does, -1 if it never will. For a transferred counter: time for
--                     which its owner may use this part
--          granted    units leased beyond the cost
--          delayMs    wait until the request's turn, for rules that throttle

local function addOutcome(reply, judged, now, granted)
  local size = #reply
  if judged.owner then
    reply[size + 1] = '>' .. judged.owner
    reply[size + 2] = 0
    reply[size + 3] = judged.record.expiry
    reply[size + 4] = math.max(0, judged.record.usableUntil - now)
    reply[size + 5] = 0
    reply[size + 6] = 0
    return
  end
  reply[size + 1] = judged.fits and 1 or 0
  reply[size + 2] = remainingOf(judged, now)
  reply[size + 3] = expiryOfCounter(judged)
  reply[size + 4] = judged.retry
  reply[size + 5] = granted
  reply[size + 6] = judged.delay
end

-- Does what the denying rule asks for: counts the denied request, up to a debt of the whole capacity, and starts a
-- block.
local function deny(judged, now)
  local check = judged.check
  local canEverFit = judged.retry >= 0
  charge(judged, check.countsDenied and canEverFit and withinDebt(judged) or 0, now)
  if not canEverFit then return end
  if check.blockMs and judged.blockedUntil <= now then
    judged.blockedUntil = now + check.blockMs
    judged.isChanged = true
  end
  judged.retry = retryOf(check, judged, now)
end

operations.take = function(checks, keys, now)
  local all, passes, reply = judgeAll(checks, keys, now), true, { now }
  for i = 1, #all do
    all[i].fits = not all[i].owner and all[i].retry == 0
    passes = passes and not all[i].owner and (all[i].fits or all[i].check.isShadow)
  end
  for i = 1, #all do
    local judged, granted = all[i], 0
    local check = judged.check
    local isSpared = not passes and (judged.fits or check.isShadow)
    if judged.owner then
      -- This region counts nothing.
    elseif isSpared then
      charge(judged, 0, now)
    elseif judged.fits then
      granted = math.min(check.lease or 0, judged.room - check.cost)
      charge(judged, check.cost + granted, now)
    else
      deny(judged, now)
    end
    if not judged.owner then save(judged, now, true) end
    addOutcome(reply, judged, now, granted)
  end
  return reply
end
