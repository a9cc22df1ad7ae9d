-- run: one call of any operation. All reading and judging happens in memory, before the first write, because Redis does
-- not undo what a script wrote before an error.
local operation, checks, problem = readArguments()
if problem then return { err = 'WEIR_BAD_ARGUMENT ' .. problem } end
time = time or redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local keys = readKeys(value)
local run = operations[operation]
local reply = run(checks, keys, now)
writeKeys(keys, now)
return reply
