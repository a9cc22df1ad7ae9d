// Spellings of a path that people have used to get around rules by path. Weir must count each one like the plain path,
// or refuse it.

/** Each plain path, with spellings that Weir counts as this path. */
export const SAME: Readonly<Record<string, readonly string[]>> = {
  '/': ['//', '/.', '/./', '/..', '/../..', '/a/..', '/%2e', '/%2E%2e/', '/;', '/;x=1', '/%20', '/a/../;x/'],
  '/users/7': [
    '/users/7/',
    '//users//7',
    '/users///7//',
    '/./users/./7',
    '/x/../users/7',
    '/../users/7',
    '/users/x/../7',
    '/users/x;y/../7',
    '/users/7/.',
    '/users/7/x/..',
    // A URL parser removes the empty segment, so the origin gets the path without it.
    '/users//../7',
    '/Users/7',
    '/USERS/7',
    '/%75sers/7',
    '/%75%73%65%72%73/%37',
    '/%55SERS/7',
    '/users/%2e/7',
    '/users/x/%2E%2e/7',
    '/users/x/.%2e/7',
    '/users;/7',
    '/users;jsessionid=1/7;v=2',
    '/users;a;b/7',
    '/;x/users/7',
    '/users/;x/7',
    '/users/7/;',
    '/users/7/;x=/y/..',
    '/users%3B/7',
    '/users%3bx=1/7%3By',
    '/users/%3Bx/7',
    // For origins that trim names.
    '/users/7%20',
    '/%20users/7%C2%A0',
    // For origins that decode twice.
    '/%2575sers/7',
    '/%252575sers/7',
    '/users%253Bx/7',
    '/users/7%2520',
    // Fullwidth and other forms that are compatible with the letter.
    '/%EF%BD%95sers/7',
    '/u%C5%BFers/7',
    '/users/%EF%BC%97',
    '/users/%E2%91%A6',
  ],
  '/caf%C3%A9': [
    '/café',
    '/cafe\u0301',
    '/cafe%CC%81',
    '/CAF%C3%89',
    '/caf%c3%a9',
    '/CAFE%CC%81',
    '/caf%25C3%25A9',
    '/caf%C3%A9;x',
  ],
  '/v1/books:batch': ['/v1/books%3Abatch', '/v1/books%3abatch', '/V1/Books%253Abatch'],
  '/@me': ['/%40me', '/%40ME/'],
  "/!$&'()+,=": ['/%21%24%26%27%28%29%2B%2C%3D', "/!%24&'%28)+%2c="],
  '/*': ['/%2A', '/%2a/'],
  '/a|b[c]': ['/a%7Cb%5Bc%5D', '/A%7cB[C]'],
  '/100%25': ['/100%25/', '/%31%30%30%25', '/100%2525'],
  '/stra%C3%9Fe': ['/STRASSE', '/STRA%E1%BA%9EE', '/strasse'],
  '/%CE%BF%CE%B4%CF%8C%CF%82': ['/%CE%9F%CE%94%CE%8C%CE%A3', '/%CE%BF%CE%B4%CF%8C%CF%83'],
};

/** Spellings that Weir refuses with 400, each with the reason. */
export const REFUSED: Readonly<Record<string, string>> = {
  // These are dots if an origin cuts the parameters first.
  '/a/..;/users/7': '"..;" can be read as ..',
  '/a/..;x=1/users/7': '"..;x=1" can be read as ..',
  '/a/.;x/users/7': '".;x" can be read as .',
  '/a/%2e%2e;/users/7': '"..;" can be read as ..',
  '/a/..%3B/users/7': '"..%3B" can be read as ..',
  '/a/..%253B/users/7': '"..%253B" can be read as ..',
  '/users/7/..;': '"..;" can be read as ..',
  // These are dots if an origin trims first.
  '/a/..%20/users/7': '"..%20" can be read as ..',
  '/a/%20../users/7': '"%20.." can be read as ..',
  // These are dots if an origin decodes once more.
  '/a/%252e%252e/users/7': '"%252e%252e" can be read as ..',
  '/a/.%252E/users/7': '".%252E" can be read as ..',
  '/users%252F7': '"users%252F7" hides a %2f',
  '/users%255C7': '"users%255C7" hides a %5c',
  '/users%25252F7': '"users%25252F7" hides a %2f',
  '/users%2500': '"users%2500" hides a %00',
  '/users/7%253Fx': '"7%253Fx" hides a %3f',
  '/users/7%2523x': '"7%2523x" hides a %23',
  '/users%25252525257': '"users%25252525257" is encoded too many times',
  // These are dots if an origin folds to compatible forms first.
  '/a/%EF%BC%8E%EF%BC%8E/users/7': '"%EF%BC%8E%EF%BC%8E" can be read as ..',
  '/a/%E2%80%A5/users/7': '"%E2%80%A5" can be read as ..',
  '/users%2F7': '%2F is not allowed in a path',
  '/users%2f7': '%2F is not allowed in a path',
  '/users%5C7': '%5C is not allowed in a path',
  // A proxy in between that decodes once would make a query or a fragment of the rest.
  '/login%3Fx': '%3F is not allowed in a path',
  '/login%3f': '%3F is not allowed in a path',
  '/login%23': '%23 is not allowed in a path',
  '/login%23/x': '%23 is not allowed in a path',
  '/users/7%00': '%00 is not allowed in a path',
  '/users/7%0d%0aX: y': '%0D is not allowed in a path',
  '/users/7%09': '%09 is not allowed in a path',
  '/users/7%1F': '%1F is not allowed in a path',
  '/users/7%7f': '%7F is not allowed in a path',
  // Overlong slash and dot, a lone continuation byte, Latin-1, half a surrogate pair.
  '/users%C0%AF7': '"users%C0%AF7" is not UTF-8',
  '/a/%C0%AE%C0%AE/users/7': '"%C0%AE%C0%AE" is not UTF-8',
  '/users%E0%80%AF7': '"users%E0%80%AF7" is not UTF-8',
  '/users/%80': '"%80" is not UTF-8',
  '/caf%E9': '"caf%E9" is not UTF-8',
  '/caf%25E9': '"caf%25E9" is not UTF-8',
  '/%ED%A0%80': '"%ED%A0%80" is not UTF-8',
  '/%F8%88%80%80%AF': '"%F8%88%80%80%AF" is not UTF-8',
  '/users%': 'a % must be followed by two hexadecimal digits',
  '/users%2': 'a % must be followed by two hexadecimal digits',
  '/users%zz7': 'a % must be followed by two hexadecimal digits',
  '/users%u002f7': 'a % must be followed by two hexadecimal digits',
};

/** Names that only look alike. Each is a path of its own. */
export const APART: readonly (readonly [string, string])[] = [
  ['/users/7', '/users7'],
  ['/users/7', '/users/7/8'],
  ['/users/7', '/users/7.'],
  ['/users/7', '/users/...'],
  ['/a.b', '/a/b'],
  ['/%7B%7D', '/x'],
  // A slash in one character is part of a name, as in titles of books.
  ['/fate/stay', '/fate%EF%BC%8Fstay'],
  ['/e', '/%C3%A9'],
  // Cyrillic, not Latin.
  ['/a', '/%D0%B0'],
];
