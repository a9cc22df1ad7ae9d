-- gcra: the generic cell rate algorithm. Requests have an even spacing T = W / limit; each moves the
-- theoretical arrival time (TAT) of the next one T further. A request passes if that leaves TAT at most
-- `extra` spacings (the limit if not given) ahead of now.
--
-- TAT is when a token bucket of the same size is full again: (TAT - now) * limit / W tokens are missing. So it
-- has the state and the arithmetic of a token bucket, which also knows a clock that went back by its moment.

--@letter g
--@like token-bucket
