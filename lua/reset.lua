#!lua flags=allow-key-locking
-- reset: forgets the counters of some keys. Records of transfers stay, because the owner goes on using this region's
-- part.
--
-- KEYS   their value is described in counters/records.lua, as are these constants
-- reply  how many of the keys had something to forget
local FORMAT, HEADER, IDLE_MS, LATEST = ' weir3;', 22, 5000, 140737488355328
local forgotten = 0
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  local text = type(value) == 'string' and value or ''
  local kept, newest, from = '', 0, string.sub(text, 16, HEADER) == FORMAT and HEADER or #text
  while from < #text do
    local past = string.find(text, ';', from + 1, true) or #text + 1
    local _, _, untilText = string.find(text, '^;[%w_-]+:[mn](%d+) ', from)
    -- Longer digits are no number on gopher-lua.
    local untilMs = untilText and #untilText < 16 and tonumber(untilText) or 0
    if untilMs > 0 and untilMs <= LATEST then
      kept = kept .. string.sub(text, from, past - 1)
      newest = math.max(newest, untilMs)
    end
    from = past
  end
  if kept == '' then
    forgotten = forgotten + redis.call('DEL', KEYS[i])
  elseif HEADER + #kept < #text then
    local digits = string.format('%d', newest + IDLE_MS)
    local header = string.rep('0', 15 - #digits) .. digits .. string.sub(FORMAT, 1, -2)
    redis.call('SET', KEYS[i], header .. kept .. ';', 'PXAT', digits)
    forgotten = forgotten + 1
  end
end
return forgotten
