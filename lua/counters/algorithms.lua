-- algorithms: by letter, how an algorithm counts. The files of the algorithms come after this one. Each adds its traits,
-- which a test compares with those in TypeScript, and a function that makes its table of functions, and is called when a
-- check needs the algorithm:
--   parse(text, check)     the state in the text of a record, or nil if the text is damaged
--   store(state, reset)    the text of a state, which begins with the moment at which the counter is free again
--   advance(state, now, check)         the state at `now` (nil stands for none), the room left (negative in debt), the
--                                      capacity, and the wait until the request's turn (0 without a queue)
--   wait(state, now, check, cost)      how long until the cost fits, if it does not fit now but can
--   charge(state, units, now, check, past)   the state moved by `units`, and when the counter is free again. With
--                                      `past` (at, kept) it changes an earlier charge: a refund or a settlement
-- Each is the twin of the TypeScript file of the same name in src/core/counting/algorithms.
local traits, algorithms, made = {}, {}, {}

local function algorithmOf(letter)
  if not made[letter] then
    local make = algorithms[letter]
    made[letter] = make()
  end
  return made[letter]
end
