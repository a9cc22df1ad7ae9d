-- invalid-check: returns what is wrong with one check, or nil. It is loaded only for checks that are not plain. The
-- messages are those of problemOf in src/core/counting/check.ts. Columns are text as in ARGV of counters, or nil.
local LARGEST, LONGEST, MAX_BUCKETS = 4503599627370496, 1099511627776, 100
-- What the column `want` means, by operation.
local UNITS = { take = 'lease', refund = 'kept', settle = 'most', transfer = 'charged' }

local function whole(text)
  local number = tonumber(text)
  return number and number >= 1 and number <= LARGEST and number % 1 == 0 and number
end

-- The algorithm with this letter: its name, whether it holds seats, its largest limit or false, whether it has
-- buckets, whether it counts units alone. The composer writes them from the traits in TypeScript.
local function algorithmOf(letter)
  --@traits
  return nil
end

return function(operation, hasKey, check)
  local algorithm, holdsSeats, maxUnits, hasBuckets, countsUnits = algorithmOf(string.sub(check.counter, -1))
  local limit, windowMs, most = whole(check.limit), whole(check.windowMs), 0
  if not algorithm then return 'unknown algorithm' end
  if not string.find(check.counter, '^;[%w_-]+:%l$') then return 'an id must have letters, digits, - or _' end
  if not hasKey then return 'key must be the number of a key' end
  if not limit then return 'limit must be a whole number above 0' end
  if not windowMs or windowMs > LONGEST then return 'windowMs must be a whole number from 1 to 2^40' end
  if check.cost and not whole(check.cost) then return 'cost must be a whole number above 0' end
  if holdsSeats then
    local seat = check.seat or ''
    if #seat ~= 16 or string.find(seat, '[^%w_-]') then
      return 'a seat id must have 16 letters, digits, - or _'
    end
    if check.countsDenied then return algorithm .. ' cannot count denied requests' end
  elseif check.extra then
    most = whole(check.extra)
    if not most then return 'burst and buckets must be whole numbers above 0' end
  end
  if check.block and not whole(check.block) then return 'block must be a whole number above 0' end
  if check.hasBadBorders then return 'borders must be four times, one after the other' end
  if operation == 'transfer' then
    local owner = check.owner or ''
    if #owner < 1 or #owner > 32 or string.find(owner, '[^%l%d-]') then return 'transfer needs the name of a region' end
    local term, hold = whole(check.term or ''), whole(check.hold or '')
    if not term or not hold or term > LONGEST or hold > LONGEST then
      return 'term and hold must be whole numbers from 1 to 2^40'
    end
  end
  if operation == 'renew' and not holdsSeats then return 'only seats can be renewed' end
  if operation == 'settle' then
    if holdsSeats then return 'seats cannot be settled' end
    if not check.at then return 'settle needs the time of the charge' end
  end
  if check.want and not whole(check.want) then return UNITS[operation] .. ' must be a whole number above 0' end
  if check.at and not whole(check.at) then return 'at must be a whole number above 0' end
  if maxUnits and limit > maxUnits then return algorithm .. ' takes a limit of up to ' .. maxUnits end
  if hasBuckets and most > MAX_BUCKETS then
    return 'there can be up to ' .. MAX_BUCKETS .. ' buckets'
  end
  if math.max(countsUnits and 0 or limit, most) * windowMs > LARGEST then return 'limit times windowMs must stay below 2^52' end
  -- An algorithm without seats ignores the id.
  return nil, holdsSeats and check.seat or nil
end
