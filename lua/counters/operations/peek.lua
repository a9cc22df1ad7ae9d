-- peek: judges as a take would, with its reply, and changes nothing. A denial starts no block and is not counted, so its
-- wait is the one that holds if nobody takes meanwhile: a take that is denied may have to wait longer.

operations.peek = function(checks, keys, now)
  local all, reply = judgeAll(checks, keys, now), { now }
  for i = 1, #all do
    all[i].fits = all[i].retry == 0
    charge(all[i], 0, now)
    addOutcome(reply, all[i], now, 0)
  end
  return reply
end
