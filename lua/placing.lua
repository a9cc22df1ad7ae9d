-- placing: puts the new record into the new text of its key.

if isUsual then
  -- Nothing to do: the record keeps its position.
elseif not place then
  -- Records are in the order of the checks, so that each is found at once.
  changesAt = from > HEADER and from or HEADER
  last = changesAt - 1
  isBehind = false
  keepsTtl = false
elseif isLost or expiryBefore and expiry < expiryBefore then
  newest = INFINITY
end
if isKept then
  if expiry > covered then covered = expiry end
elseif expiry > newest then
  newest = expiry
end
if count == 1 then
  pieces = sub(text, 1, changesAt - 1) .. record
  size = 1
  from = last + 1
elseif isBehind then
  pieces[1] = sub(source, 1, changesAt - 1) .. record .. sub(source, last + 1, -2)
else
  pieces = pieces or { '', '', '', '', '', '', '', '', '', '', '' }
  pieces[size + 1] = sub(text, from, changesAt - 1)
  pieces[size + 2] = record
  size = size + 2
  from = last + 1
  if size > 98 then
    pieces = { table.concat(pieces, '', 1, size) }
    size = 1
  end
end
