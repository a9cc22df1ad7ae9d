-- writing: writes the keys that have changed. A key expires IDLE_MS after its last counter.

if others then others[key] = { pieces = pieces, size = size, from = from, newest = newest, covered = covered } end
for each = 1, #KEYS do
  if others then
    local known = others[each]
    text = texts[each]
    pieces = known and known.pieces
    size = known and known.size or 0
    from = known and known.from
    newest = known and known.newest
    covered = known and known.covered
  end
  if size > 0 then
    local rest = from > #text and ';' or sub(text, from)
    local value
    if count == 1 then
      value = pieces .. rest
    else
      pieces[size + 1] = rest
      value = table.concat(pieces, '', 1, size + 1)
    end
    local expires
    if newest <= covered then
      newest = covered
      expires = keepsTtl and INFINITY
    end
    expires = expires or tonumber(sub(text, 1, 15)) or 0
    -- Removes expired counters from a long value. Beyond 500 counters, it drops those that expire first. The rules in
    -- force have at most 320 in a key (src/core/counting/keys.ts), so the others are of rules that have changed.
    if newest == INFINITY or #text > 8192 then
      local live = module('live-records')
      local records, last = live(sub(value, HEADER), now - IDLE_MS, 500)
      value = EMPTY .. sub(records, 2)
      newest = last
      expires = 0
    end
    newest = newest + IDLE_MS
    if newest <= expires and keepsTtl then
      -- The key still has a TTL to keep: the script has just read its counters, and a key lives IDLE_MS longer than
      -- they do.
      call('SET', KEYS[each], value, 'KEEPTTL')
    elseif newest <= now then
      call('DEL', KEYS[each])
    else
      if newest < expires and expires <= LATEST then newest = expires end
      local digits = format('%d', newest)
      value = sub(EMPTY, 1, 15 - #digits) .. digits .. sub(value, 16)
      call('SET', KEYS[each], value, 'PXAT', digits)
    end
  end
end
