-- operations: by name. The files of the operations come after this one. Each adds a function that judges all checks,
-- changes their records in memory, and returns the reply.
local operations = {}
