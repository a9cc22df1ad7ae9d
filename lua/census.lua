#!lua flags=allow-key-locking
-- census: notes that an isolate is alive, and forgets isolates that have not reported for longer than the keep time.
--
-- KEYS   [1] the isolates, a sorted set by the time of their last report
-- ARGV   [1] id of the isolate  [2] keep time in ms
-- reply  how many isolates there are, this one included
local time = redis.call('TIME')
local now, keepMs = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000), tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - keepMs))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
