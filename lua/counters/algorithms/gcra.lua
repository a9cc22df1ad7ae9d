-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- TAT is the moment when a token bucket of the same size is full again: (TAT - now) * limit / W tokens are missing. So
-- gcra uses the record, the functions and the section of a token bucket, which also handle a clock that went back.

traits.g = { id = 'gcra' }
algorithms.g = function() return algorithmOf('t') end
