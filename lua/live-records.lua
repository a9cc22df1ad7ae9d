-- live-records: returns the records of a key that have not expired, and when the last of them does (0 if there is
-- none). If there are more than `max`, it drops those that expire first. It is loaded only when a counter has become
-- shorter-lived, or when the text is long.
return function(text, now, max)
  local records, expiries = {}, {}
  local from = 1
  while from < #text do
    local past = string.find(text, ';', from + 1, true) or #text + 1
    local _, _, letter, first, second = string.find(text, '^;[%w_-]+:(%a)(%d+) (%d*)', from)
    local expiry = tonumber(first or 0)
    -- A capital letter means that the end of a block precedes the expiry of the counter.
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
  -- Joins a hundred at a time, because a long list does not fit on every server's stack.
  local live, newest = '', 0
  for first = 1, #records, 100 do
    live = live .. table.concat(records, '', first, math.min(first + 99, #records))
  end
  for i = 1, #expiries do newest = math.max(newest, expiries[i]) end
  return live .. ';', newest
end
