-- transfer: another region asks for this region's part of a counter. A region that has counted nothing lately transfers
-- its part. A region that has counted transfers it, too, if the owner has charged itself with as many units in the same
-- window. A region never takes the part back early: it waits. docs/regions.md explains why.
--
-- ARGV   arguments.lua describes the columns. This operation also has
--          owner           the region that asks
--          term            ms for which it may use the part
--          hold            ms for which its charges still count after that
--          charged, at     units that the owner has charged itself with, in place of those in this counter, and when
-- reply  now, then three for each check:
--          'transferred'   epoch ms until which this region counts nothing; 0
--          'in-use'        units used here; wait until it is worth asking again
--          'refused'       0; wait until it is worth asking again

local function putTransfer(key, check, record, letter, untilMs, usableUntil, owner)
  local name = string.sub(check.counter, 1, -2)
  putRecord(key, record, string.format('%s%s%d %d %s', name, letter, untilMs, usableUntil, owner), untilMs)
end

-- Whether the units in this counter are charged at the owner, too, in the same window.
local function isChargedElsewhere(check, judged, used, now)
  local at = check.at or now
  local isSameWindow = now - now % check.windowMs == at - at % check.windowMs
  return check.charged and isSameWindow and judged.blockedUntil <= now and used <= check.charged
end

local function transferOne(check, keys, now)
  local judged = judge(check, keys, now)
  local key, record, owner = judged.key, judged.record, judged.owner
  -- An owner that must give the part back waits a window longer, so that this region can count with it first.
  if owner and (owner ~= check.owner or record.isWanted) then
    return 'refused', 0, record.expiry - now + (owner == check.owner and check.windowMs or 0)
  end
  local inUseUntil = record and record.state and record.expiry + IDLE_MS or 0
  if inUseUntil > now then
    local used = math.max(0, math.min(judged.capacity, judged.capacity - judged.room))
    -- A block is no number of units that the owner could charge itself with.
    if judged.blockedUntil > now then used = 0 end
    if not isChargedElsewhere(check, judged, used, now) then return 'in-use', used, inUseUntil - now end
  end
  local usableUntil = now + check.term
  local untilMs = math.max(owner and record.expiry or 0, usableUntil + check.hold)
  putTransfer(key, check, record, 'm', untilMs, usableUntil, check.owner)
  if record and untilMs < record.expiry then key.mustLook = true end
  return 'transferred', untilMs, 0
end

operations.transfer = function(checks, keys, now)
  local reply = { now }
  for i = 1, #checks do
    local kind, first, second = transferOne(checks[i], keys, now)
    reply[3 * i - 1] = kind
    reply[3 * i] = first
    reply[3 * i + 1] = second
  end
  return reply
end
