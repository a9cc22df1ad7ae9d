-- arguments: reads the arguments of the current check.

local counter, limit, windowMs, cost, want = ARGV[first], ARGV[first + 1] * 1, ARGV[first + 2] * 1, 1, 0
local colon, code = byte(counter, -2, -1)
local extra, blockMs, countsDenied, isShadow, chargedAt, asking, termMs, holdMs
local borderBefore, borderStart, borderEnd, borderAfter, hasBadBorders
local isValid = colon == COLON and limit >= 1 and windowMs >= 1 and windowMs <= LONGEST
  and limit % 1 + windowMs % 1 == 0 and (limit * windowMs <= LARGEST
  --@limitMayBeLarge
  )
  --@limitFits
if hasOptions or not isValid then
  if keyAt then
    local other = tonumber(ARGV[first + keyAt])
    if other ~= key and not texts then
      text = nil
    elseif other ~= key then
      others[key] = { pieces = pieces, size = size, from = from, newest = newest, covered = covered }
      key = other
      text = texts[key]
      local known = others[key]
      pieces = known and known.pieces
      size = known and known.size or 0
      from = known and known.from or 1
      newest = known and known.newest or 0
      covered = known and known.covered or 0
    end
  end
  if costAt and ARGV[first + costAt] ~= '' then
    cost = ARGV[first + costAt] * 1
    isValid = isValid and cost >= 1 and cost <= LARGEST and cost % 1 == 0
  end
  if extraAt and ARGV[first + extraAt] ~= '' then
    extra = ARGV[first + extraAt] * 1
    isValid = isValid and extra >= 1 and extra * windowMs <= LARGEST and extra % 1 == 0
      --@bucketsFit
  end
  if wantAt and ARGV[first + wantAt] ~= '' then
    want = ARGV[first + wantAt] * 1
    isValid = isValid and want >= 1 and want <= LARGEST and want % 1 == 0
  end
  if blockAt and ARGV[first + blockAt] ~= '' then
    blockMs = ARGV[first + blockAt] * 1
    isValid = isValid and blockMs >= 1 and blockMs <= LARGEST and blockMs % 1 == 0
  end
  if flagsAt and ARGV[first + flagsAt] ~= '' then
    local flags = ARGV[first + flagsAt]
    countsDenied = flags ~= '2'
    isShadow = flags ~= '1'
  end
  if bordersAt and ARGV[first + bordersAt] ~= '' then
    local _, _, before, start, ends, after = find(ARGV[first + bordersAt], '^(%d+) (%d+) (%d+) (%d+)$')
    borderBefore = (before or 0) * 1
    borderStart = (start or 0) * 1
    borderEnd = (ends or 0) * 1
    borderAfter = (after or 0) * 1
    hasBadBorders = borderBefore < 1 or borderStart <= borderBefore or borderEnd <= borderStart
      or borderAfter <= borderEnd or borderAfter > LATEST
    isValid = isValid and not hasBadBorders
  end
  if hasRareColumns or not isValid or not text then
    local function column(at) return at and ARGV[first + at] ~= '' and ARGV[first + at] or nil end
    local problemOf = module('invalid-check')
    local problem, seat = problemOf(operation, text, {
      counter = counter, limit = ARGV[first + 1], windowMs = ARGV[first + 2], cost = column(costAt),
      extra = column(extraAt), want = column(wantAt), block = column(blockAt), at = column(atAt),
      seat = column(seatAt), countsDenied = countsDenied, owner = column(ownerAt),
      term = column(ownerAt and ownerAt + 1), hold = column(ownerAt and ownerAt + 2), hasBadBorders = hasBadBorders,
    })
    if problem then return { err = 'WEIR_BAD_ARGUMENT check ' .. i .. ': ' .. problem } end
    extra = seat or extra
    if isAfterwards or isTransfer then chargedAt = tonumber(column(atAt) or now) end
    asking = column(ownerAt)
    if asking then
      termMs = tonumber(column(ownerAt + 1))
      holdMs = tonumber(column(ownerAt + 2))
    end
  end
end
