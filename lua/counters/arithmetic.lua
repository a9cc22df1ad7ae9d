-- arithmetic: what the files after this one share. Levels and waits are whole numbers, so these are exact.
-- Bounds of products, of windows and blocks in ms, of the time in ms that a bucket takes to fill, and of moments.
local LARGEST, LONGEST, SLOWEST, LATEST = 4503599627370496, 1099511627776, 17592186044416, 140737488355328

local function floorDivide(a, b) return (a - a % b) / b end

local function ceilDivide(a, b)
  local rest = a % b
  return (a - rest) / b + (rest > 0 and 1 or 0)
end

-- The time that these digits say; 0 if there are none, or it is after LATEST. Longer digits are no number on gopher-lua.
local function timeOf(digits)
  local time = digits and #digits < 16 and tonumber(digits) or 0
  return time <= LATEST and time or 0
end

-- The number that a text says, if there is one, and it is whole and above 0, and products with it stay exact.
local function whole(text)
  local number = text and tonumber(text)
  return number and number >= 1 and number <= LARGEST and number % 1 == 0 and number or nil
end
