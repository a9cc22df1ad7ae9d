-- renew: takes seats again that are still held, for another window.
--
-- reply  integers: now, then for each check 1 if the seat was still held, or 0

operations.renew = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    local judged = all[i]
    local held = not judged.owner and judged.state.held or 0
    if held > 0 then
      charge(judged, held, now)
      save(judged, now, false)
    end
    reply[i + 1] = held > 0 and 1 or 0
  end
  return reply
end
