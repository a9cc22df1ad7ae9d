// The headers and `cf` of an ordinary request to a Worker on Cloudflare: twenty headers of a browser and of Cloudflare.

/** Without `CF-Connecting-IP`, which differs by subject. */
export const ORDINARY_HEADERS: Readonly<Record<string, string>> = {
  Accept: 'application/json, text/plain, */*',
  'Accept-Encoding': 'gzip, br',
  'Accept-Language': 'en-US,en;q=0.9,de;q=0.8',
  'Cache-Control': 'no-cache',
  'CDN-Loop': 'cloudflare; loops=1',
  'CF-IPCountry': 'US',
  'CF-Ray': '8f2c1d3e4a5b6c7d-IAD',
  'CF-Visitor': '{"scheme":"https"}',
  Cookie:
    'session=4f1d2c3b5a69788796a5b4c3d2e1f001; theme=dark; consent=all; _ga=GA1.1.1234567890.1700000000',
  Origin: 'https://app.example.com',
  Priority: 'u=1, i',
  Referer: 'https://app.example.com/orders?page=2',
  'Sec-CH-UA': '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
  'Sec-CH-UA-Mobile': '?0',
  'Sec-CH-UA-Platform': '"macOS"',
  'Sec-Fetch-Dest': 'empty',
  'Sec-Fetch-Mode': 'cors',
  'Sec-Fetch-Site': 'same-site',
  'User-Agent':
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36',
  'X-Request-Id': '3f0f6c1e-5a0b-4a57-9b7e-0d6e0a4c2b1f',
};

/** workerd makes `request.cf` from this header, and removes it. */
export const CF_HEADER = 'X-Bench-Cf';

/** Near the first region. */
const CF = {
  asn: 7922,
  asOrganization: 'Comcast Cable Communications',
  city: 'Ashburn',
  clientAcceptEncoding: 'gzip, deflate, br, zstd',
  clientTcpRtt: 12,
  colo: 'IAD',
  continent: 'NA',
  country: 'US',
  edgeRequestKeepAliveStatus: 1,
  httpProtocol: 'HTTP/2',
  latitude: '39.04372',
  longitude: '-77.48749',
  metroCode: '511',
  postalCode: '20147',
  region: 'Virginia',
  regionCode: 'VA',
  requestPriority: 'weight=220;exclusive=1',
  timezone: 'America/New_York',
  tlsCipher: 'AEAD-AES128-GCM-SHA256',
  tlsClientHelloLength: '1786',
  tlsVersion: 'TLSv1.3',
};

const SENT = { ...ORDINARY_HEADERS, [CF_HEADER]: JSON.stringify(CF) };

export const headersOf = (ip: string): Record<string, string> => ({ ...SENT, 'CF-Connecting-IP': ip });
