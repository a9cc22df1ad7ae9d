// The page at /_origin: every switch of the demo origin in one line.
export const HELP = `Weir's demo origin: the API behind Weir in local development and tests.

Any method and path answers JSON: method, path, headers (pairs, as received), body (null above 64 KB),
bodyEncoding (utf-8 or base64), bodyBytes, bodySha256. Query switches combine:

  delay=MS               wait before answering
  status=CODE            200 to 599
  location=URL           adds a Location header
  header=Name:Value      adds a response header; repeatable
  cost=N                 adds X-Weir-Cost: N
  bytes=N                N bytes; byte i is i modulo 251
  stream=N&interval=MS   N lines, chunked (interval 100 unless told)
  gzip=1                 a gzip body
  early=103              103 Early Hints before the answer
  fail=reset             reset the connection instead of answering, without reading the body
  fail=half              answer half of the body, then cut the connection
  hang=1                 read the request, never answer
  stall=1                neither read the body nor answer

  /sse?count=N&interval=MS     N server-sent events (count 10 unless told)
  /llm?prompt=TEXT&interval=MS a reply word by word, then its usage; total tokens in X-Weir-Cost
  /missing                     404
  /_origin                     this page

WebSocket at any path: echoes messages; "ping" is answered "pong"; "close:CODE" closes with that code;
greet=1 first sends the request's headers as JSON; the first subprotocol offered is chosen. delay, header
and cost apply; status, fail and hang refuse the upgrade and answer as plain HTTP.
`;
