#!lua flags=allow-key-locking
-- announce: writes an announcement, unless a newer one is there.
--
-- KEYS   [1] the announcement
-- ARGV   [1] number of the publication  [2] the announcement, which begins with that number and a dot  [3] TTL in ms
-- reply  1 if Redis now holds this announcement, 0 if it holds a newer one
local standing = redis.call('GET', KEYS[1])
local number = standing and string.match(standing, '^(%d+)%.')
if number and tonumber(number) > tonumber(ARGV[1]) then return 0 end
redis.call('PSETEX', KEYS[1], ARGV[3], ARGV[2])
return 1
