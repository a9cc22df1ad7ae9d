-- refusal: what is wrong with the check whose arguments begin at `at`, or nil. Loaded only for checks that are
-- not plain; the words are those of problemOf in src/core/check.ts.
local LARGEST, LONGEST, MOST_UNITS, MOST_BUCKETS = 4503599627370496, 1099511627776, 100000, 100

local function whole(text)
  local number = tonumber(text)
  return number and number >= 1 and number <= LARGEST and number % 1 == 0 and number
end

return function(at, key, options, operation, code)
  local algorithm, limit, windowMs, most = ARGV[at], whole(ARGV[at + 2]), whole(ARGV[at + 3]), 0
  local lease = string.match(options, 'lease=(.*)$')
  options = string.gsub(options, 'lease=.*$', '')
  local cost, extra = string.match(options, 'cost=(%S+)'), string.match(options, 'extra=(%S+)')
  if not code then return 'unknown algorithm' end
  if not KEYS[key] then return 'key must be the number of a key' end
  if not limit then return 'limit must be a whole number above 0' end
  if not windowMs or windowMs > LONGEST then return 'windowMs must be a whole number from 1 to 2^40' end
  if cost and not whole(cost) then return 'cost must be a whole number above 0' end
  if algorithm == 'concurrency' then
    if not lease or #lease ~= 16 then return 'a lease id must have 16 characters' end
    if string.find(options, 'denied', 1, true) then return 'concurrency cannot count denied requests' end
  elseif extra then
    most = whole(extra)
    if not most then return 'burst and buckets must be whole numbers above 0' end
  end
  for _, option in ipairs({ 'want', 'block', 'at', 'relief', 'since', 'full' }) do
    local value = string.match(options, option .. '=(%S+)')
    if value and not whole(value) then return option .. ' must be a whole number above 0' end
  end
  if string.find(options, 'relief=', 1, true) then
    if operation ~= 'take' then return 'only a take can be relieved' end
    if algorithm == 'concurrency' then return 'leases cannot be taken over' end
    if not string.find(options, 'since=%S') or not string.find(options, 'full=%S') then
      return 'relief takes since and full'
    end
  end
  if operation == 'renew' and algorithm ~= 'concurrency' then return 'only leases can be renewed' end
  if operation == 'settle' then
    if algorithm == 'concurrency' then return 'leases cannot be settled' end
    if not string.find(options, 'at=%S') then return 'to settle takes the time of the charge' end
  end
  if (algorithm == 'concurrency' or algorithm == 'sliding-window-log') and limit > MOST_UNITS then
    return algorithm .. ' takes a limit of up to ' .. MOST_UNITS
  end
  if algorithm == 'sliding-window-buckets' and most > MOST_BUCKETS then
    return 'there can be up to ' .. MOST_BUCKETS .. ' buckets'
  end
  if math.max(limit, most) * windowMs > LARGEST then return 'limit times windowMs must stay below 2^52' end
end
