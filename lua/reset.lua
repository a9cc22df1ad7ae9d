#!lua flags=allow-key-locking
-- reset: forgets the counters of some keys. Records of transfers stay, because the owner goes on using this region's
-- part.
--
-- KEYS   their value is described in counters/records.lua
-- reply  how many of the keys had something to forget
local FORMAT, HEADER, forgotten = ' weir3;', 22, 0
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  local text = type(value) == 'string' and value or ''
  local kept, from = '', string.sub(text, 16, HEADER) == FORMAT and HEADER or #text
  while from < #text do
    local past = string.find(text, ';', from + 1, true) or #text + 1
    if string.find(text, '^;[%w_-]+:[mn]%d+ ', from) then kept = kept .. string.sub(text, from, past - 1) end
    from = past
  end
  if kept == '' then
    forgotten = forgotten + redis.call('DEL', KEYS[i])
  elseif HEADER + #kept < #text then
    local ttl = redis.call('PTTL', KEYS[i])
    redis.call('PSETEX', KEYS[i], string.format('%.0f', math.max(1, ttl)), string.sub(text, 1, HEADER - 1) .. kept .. ';')
    forgotten = forgotten + 1
  end
end
return forgotten
