-- live-records: the records of a key without those that have expired, and when the last of the others does (0 if there
-- is none). Of more than `max`, those that expire first go too. Loaded only when a counter has become shorter-lived,
-- or the text is long.
return function(text, now, max)
  local records, expiries = {}, {}
  local from = 1
  while from < #text do
    local past = string.find(text, ';', from + 1, true) or #text + 1
    local _, _, letter, first, second = string.find(text, '^;[%w_-]+:(%a)(%d+) (%d*)', from)
    local expiry = tonumber(first or 0)
    -- A capital letter: the end of a block comes before the counter's own.
    if letter and letter < 'a' then expiry = math.max(expiry, tonumber(second) or 0) end
    if expiry > now then
      records[#records + 1] = string.sub(text, from, past - 1)
      expiries[#expiries + 1] = expiry
    end
    from = past
  end
  while #records > max do
    local first = 1
    for i = 2, #expiries do
      if expiries[i] < expiries[first] then first = i end
    end
    table.remove(records, first)
    table.remove(expiries, first)
  end
  -- A hundred at a time: a long list does not fit on every server's stack.
  local live, newest = '', 0
  for first = 1, #records, 100 do
    live = live .. table.concat(records, '', first, math.min(first + 99, #records))
  end
  for i = 1, #expiries do newest = math.max(newest, expiries[i]) end
  return live .. ';', newest
end
