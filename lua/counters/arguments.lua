-- arguments: reads ARGV of any operation, and refuses what is wrong before anything is written. The messages are those
-- of problemOf in src/core/counting/check.ts.
--
-- ARGV   [1] the operation, and the names of the optional columns, with spaces between them
--        then for each check: counter, limit, windowMs, and the columns that [1] names; '' where a check has none
-- Columns of every operation:
--   key      number of its key in KEYS; 1 if there is no such column
--   cost     units to take, give back or settle; 1 if empty
--   extra    burst or number of buckets
--   seat     id of a seat: 16 letters, digits, - and _
--   borders  of a calendar window: epoch ms of four borders in a row, with spaces between them; the window of
--            `windowMs` is between the second and the third. The clock of this server selects the window
--   block    ms for which everything is denied once the limit is exceeded
--   denied   1: count denied requests, too
--   shadow   1: never deny
-- The file of each operation describes its own columns.
local COLUMNS = ' key cost extra seat borders block denied shadow '
-- The columns that only one operation has.
local OWN_COLUMNS = {
  take = ' lease ', peek = ' ', refund = ' at kept ', settle = ' at most ', renew = ' ',
  transfer = ' owner term hold at charged ', recall = ' ',
}
local MAX_CHECKS, MAX_KEYS, MAX_BUCKETS = 500, 100, 100

local function contains(list, name) return string.find(list, ' ' .. name .. ' ', 1, true) end

-- The operation, and the position of each column; or what is wrong with them.
local function readHeader(header)
  local operation, columns, width = nil, { counter = 0, limit = 1, windowMs = 2 }, 3
  for word in string.gmatch(header, '%S+') do
    if not operation then
      operation = word
      if not OWN_COLUMNS[operation] then break end
    elseif columns[word] or not (contains(COLUMNS, word) or contains(OWN_COLUMNS[operation], word)) then
      return nil, nil, nil, 'unknown column'
    else
      columns[word] = width
      width = width + 1
    end
  end
  if not OWN_COLUMNS[operation or ''] then return nil, nil, nil, 'unknown operation' end
  return operation, columns, width, nil
end

local function bordersIn(text)
  local _, _, first, second, third, fourth = string.find(text, '^(%d+) (%d+) (%d+) (%d+)$')
  if not fourth then return nil end
  local before, start, ends, after = tonumber(first), tonumber(second), tonumber(third), tonumber(fourth)
  if before < 1 or start <= before or ends <= start or after <= ends or after > LATEST then return nil end
  return { before, start, ends, after }
end

-- What is wrong with what every operation asks.
local function commonProblem(check, text)
  local trait = traits[check.letter]
  if not trait then return 'unknown algorithm' end
  if not string.find(check.counter, '^;[%w_-]+:%l$') then return 'an id must have letters, digits, - or _' end
  if not check.key then return 'key must be the number of a key' end
  if not check.limit then return 'limit must be a whole number above 0' end
  if not check.windowMs or check.windowMs > LONGEST then return 'windowMs must be a whole number from 1 to 2^40' end
  if not check.cost then return 'cost must be a whole number above 0' end
  if trait.holdsSeats then
    local seat = check.seat or ''
    if #seat ~= 16 or string.find(seat, '[^%w_-]') then return 'a seat id must have 16 letters, digits, - or _' end
    if check.countsDenied then return trait.id .. ' cannot count denied requests' end
  elseif text.extra and not check.extra then
    return 'burst and buckets must be whole numbers above 0'
  end
  if text.block and not (check.blockMs and check.blockMs <= LONGEST) then
    return 'block must be a whole number from 1 to 2^40'
  end
  if text.borders and not check.borders then return 'borders must be four times, one after the other' end
  return nil
end

-- What is wrong with what one operation adds.
local function ownProblem(operation, check, text)
  local holdsSeats = traits[check.letter].holdsSeats
  if operation == 'renew' and not holdsSeats then return 'only seats can be renewed' end
  if operation == 'settle' and holdsSeats then return 'seats cannot be settled' end
  if operation == 'settle' and not text.at then return 'settle needs the time of the charge' end
  if operation == 'transfer' then
    local owner = text.owner or ''
    if #owner < 1 or #owner > 32 or string.find(owner, '[^%l%d-]') then return 'transfer needs the name of a region' end
    if not check.term or not check.hold or check.term > SLOWEST or check.hold > SLOWEST then
      return 'term and hold must be whole numbers from 1 to 2^44'
    end
  end
  for _, column in ipairs({ 'lease', 'kept', 'most', 'charged', 'at' }) do
    if text[column] and not check[column] then return column .. ' must be a whole number above 0' end
  end
  return nil
end

local function sizeProblem(check)
  local trait, most = traits[check.letter], check.extra or 0
  if trait.mostUnits and check.limit > trait.mostUnits then
    return trait.id .. ' takes a limit of up to ' .. trait.mostUnits
  end
  if trait.hasBuckets and most > MAX_BUCKETS then return 'there can be up to ' .. MAX_BUCKETS .. ' buckets' end
  if math.max(trait.countsUnits and 0 or check.limit, most) * check.windowMs > LARGEST then
    return 'limit times windowMs must stay below 2^52'
  end
  -- A debt takes twice as long.
  if not trait.hasBuckets and most * check.windowMs > SLOWEST * check.limit then
    return 'an empty bucket must be full again within 2^44 ms'
  end
  return nil
end

local function readCheck(operation, columns, first)
  local text = {}
  for name, at in pairs(columns) do
    if ARGV[first + at] ~= '' then text[name] = ARGV[first + at] end
  end
  local counter = text.counter or ''
  local letter = string.sub(counter, -1)
  local trait = traits[letter] or {}
  local key = tonumber(text.key or columns.key and '' or 1)
  local check = {
    counter = counter, letter = letter, key = key and KEYS[key] and key, limit = whole(text.limit),
    windowMs = whole(text.windowMs), cost = whole(text.cost or 1), seat = text.seat,
    extra = not trait.holdsSeats and whole(text.extra) or nil, blockMs = whole(text.block),
    borders = text.borders and bordersIn(text.borders), countsDenied = text.denied and true or false,
    isShadow = text.shadow and true or false, lease = whole(text.lease), kept = whole(text.kept),
    most = whole(text.most), at = whole(text.at), owner = text.owner, term = whole(text.term),
    hold = whole(text.hold), charged = whole(text.charged),
  }
  local problem = commonProblem(check, text) or ownProblem(operation, check, text) or sizeProblem(check)
  return check, problem
end

-- The operation and its checks; or what is wrong with them.
local function readArguments()
  local operation, columns, width, problem = readHeader(ARGV[1] or '')
  if #ARGV == 0 then problem = 'expected 1 argument and 3 for each check' end
  if problem then return nil, nil, problem end
  local count = (#ARGV - 1) / width
  if count < 1 or count % 1 ~= 0 then
    return nil, nil, 'expected 1 argument and ' .. width .. ' for each check'
  end
  if count > MAX_CHECKS then return nil, nil, 'more than ' .. MAX_CHECKS .. ' checks' end
  if #KEYS > MAX_KEYS then return nil, nil, 'more than ' .. MAX_KEYS .. ' keys' end
  local checks = {}
  for i = 1, count do
    local check, wrong = readCheck(operation, columns, 2 + (i - 1) * width)
    if wrong then return nil, nil, 'check ' .. i .. ': ' .. wrong end
    checks[i] = check
  end
  return operation, checks, nil
end
