-- take: judges every check of one request and charges all of them, or none.
--
-- KEYS  one per check: the counter of that rule and subject
-- ARGV  [1] now in epoch ms, or '' for the server's own clock
--       then four per check: algorithm, limit, windowMs, cost
-- reply five integers per check: allowed (1|0), limit, remaining, resetAt (epoch ms),
--       retryMs (0 if allowed, -1 if no wait will ever help)
--
-- Two passes: all reading and judging comes first, so that an error cannot leave half a charge.
local STRIDE = 4

local function whole(value, name)
  local number = tonumber(value)
  if not number or number < 1 or number ~= math.floor(number) or number > 9007199254740991 then
    error({ err = 'WEIR_BAD_ARGUMENT ' .. name .. ' must be a whole number from 1 to 2^53-1' })
  end
  return number
end

local function clock()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

if #ARGV ~= 1 + STRIDE * #KEYS then
  return redis.error_reply('WEIR_BAD_ARGUMENT expected ' .. 1 + STRIDE * #KEYS .. ' arguments, got ' .. #ARGV)
end

local now = ARGV[1] == '' and clock() or whole(ARGV[1], 'now')
local states = #KEYS > 0 and redis.call('MGET', unpack(KEYS)) or {}
local meters, costs = {}, {}
local allowed = true

for i = 1, #KEYS do
  local at = 1 + (i - 1) * STRIDE
  local load = algorithms[ARGV[at + 1]]
  if not load then return redis.error_reply('WEIR_BAD_ARGUMENT unknown algorithm') end
  local limit, windowMs = whole(ARGV[at + 2], 'limit'), whole(ARGV[at + 3], 'windowMs')
  costs[i] = whole(ARGV[at + 4], 'cost')
  meters[i] = load()(states[i], now, limit, windowMs)
  meters[i].limit = limit
  allowed = allowed and meters[i].admits(costs[i])
end

local reply = {}
for i, meter in ipairs(meters) do
  local fits = meter.admits(costs[i])
  if allowed then redis.call('SET', KEYS[i], meter.charged(costs[i]), 'PX', meter.ttlMs) end
  reply[#reply + 1] = fits and 1 or 0
  reply[#reply + 1] = meter.limit
  reply[#reply + 1] = allowed and meter.remaining - costs[i] or meter.remaining
  reply[#reply + 1] = meter.resetAt
  reply[#reply + 1] = fits and 0 or meter.retryMs(costs[i])
end
return reply
