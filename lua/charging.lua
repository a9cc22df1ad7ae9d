-- charging: moves the counter as the operation says, and works out what is left.

-- By how much the counter moves, and the new record's first column: a capital letter if it blocks from now on.
local units, moves, start = cost, true, counter
if passes and fits then
  if want > 0 then
    granted = math.min(want, room - cost)
    units = cost + granted
    isNotable = true
  end
else
  units = 0
  local blocks = false
  if isTake then
    -- A denied request counts only at the rule that denied it, up to a debt of the whole capacity.
    if retryMs > 0 and (passes or not isShadow) then
      if countsDenied then units = math.max(0, math.min(cost, room + capacity)) end
      blocks = blockMs and blockedUntil <= now
      if blocks then blockedUntil = now + blockMs end
    end
  elseif operation == 'refund' then
    units = -cost
  elseif operation == 'settle' then
    units = math.min(cost, room + capacity)
    if want > 0 then units = math.min(units, want - capacity + room) end
    units = math.max(0, units)
  elseif operation == 'renew' then
    -- A renewal takes the seat again if it is still held.
    units = held
    fits = held > 0
  end
  moves = units ~= 0 or blocks
  isUsual = false
end
if not isUsual and blockedUntil > 0 then
  changesAt = nil
  if blockedUntil > now then
    start = format('%s%s%d ', sub(counter, 1, -2), string.char(code - CAPITAL), blockedUntil)
  end
end
--@charge
expiry = reset

-- What is left after the charge.
if isUsual then
  room = room - units
else
  if blockedUntil > expiry then expiry = blockedUntil end
  if expiry <= now and moves then
    record = place and ''
    changesAt = place
    isLost = true
  end
  if fits and not isAfterwards then
    room = room - units
  elseif moves then
    local delayedMs = delayMs
    --@again
    if retryMs >= 0 then retryMs = math.max(cost > room and wait or 0, blockedUntil - now) end
    if isTake then delayMs = delayedMs end
  end
  if not isTake then
    isNotable = true
    if isAfterwards then fits = true end
    if operation ~= 'peek' then retryMs = 0 end
  end
end
