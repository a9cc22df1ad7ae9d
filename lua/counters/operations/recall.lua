-- recall: this region wants its part of a counter back, so it will refuse to transfer the part again.
--
-- reply  integers: now, then for each check 1 if the part was transferred and not recalled yet, or 0

operations.recall = function(checks, keys, now)
  local reply = { now }
  for i = 1, #checks do
    local check = checks[i]
    local key = keys[check.key]
    local record = findRecord(key, check, now)
    local isNew = record and record.owner and not record.isWanted
    if isNew then putTransfer(key, check, record, 'n', record.expiry, record.usableUntil, record.owner) end
    reply[i + 1] = isNew and 1 or 0
  end
  return reply
end
