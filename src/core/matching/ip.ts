// IP addresses: one spelling for each, IPv4 inside IPv6 recognized by its bits, IPv6 counted by prefix.
import ipaddr from 'ipaddr.js';

/** One of the four numbers of an IPv4 address. */
const OCTET = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)';
const PLAIN_IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);

/** The length of the longest address: IPv6 with IPv4 inside, with all digits. */
const MAX_LENGTH = 45;

export interface Ip {
  /** Two groups of 16 bits (IPv4) or eight (IPv6). */
  readonly groups: readonly number[];
}

export interface IpRange extends Ip {
  readonly prefixLength: number;
}

/** Undefined if the text is not a whole address in its usual spelling. A zone id is not part of an address. */
export function parseIp(text: string): Ip | undefined {
  const ip = parseUnfolded(text);
  return ip && isMapped(ip) ? { groups: ip.groups.slice(6) } : ip;
}

/** The `ip` that rules count by, and the whole address; undefined if the text is not an address. */
export function countedIp(text: string, ipv6Prefix = 64): { ip: string; address: string } | undefined {
  // Most addresses look like this and need no parsing.
  if (PLAIN_IPV4.test(text)) return { ip: text, address: text };
  const ip = parseIp(text);
  if (!ip) return undefined;
  const address = formatIp(ip);
  if (isIpv4(ip)) return { ip: address, address };
  return { ip: `${formatIp(masked(ip, ipv6Prefix))}/${ipv6Prefix}`, address };
}

/** An address, or a range such as `10.0.0.0/8`. Bits beyond the prefix are dropped. */
export function parseIpRange(text: string): IpRange | undefined {
  const { address, length } = splitRange(text);
  const ip = parseUnfolded(address);
  if (!ip) return undefined;
  const prefixLength = length === undefined ? widthOf(ip) : parseLength(length);
  if (prefixLength === undefined || prefixLength > widthOf(ip)) return undefined;
  const { groups } = masked(ip, prefixLength);
  const isIpv4Inside = isMapped(ip) && prefixLength >= 96;
  return isIpv4Inside
    ? { groups: groups.slice(6), prefixLength: prefixLength - 96 }
    : { groups, prefixLength };
}

/** Why a text is neither an address nor a range, or undefined. */
export function ipRangeProblem(text: string): string | undefined {
  const { address, length } = splitRange(text);
  if (address.includes('%')) return 'must not have a zone id (%)';
  const ip = parseUnfolded(address);
  if (!ip) return 'must be an IPv4 or IPv6 address, or a range such as 10.0.0.0/8';
  if (length === undefined) return undefined;
  const prefixLength = parseLength(length);
  if (prefixLength === undefined || prefixLength > widthOf(ip))
    return `must have a prefix length from 0 to ${widthOf(ip)}`;
  const start = masked(ip, prefixLength);
  if (keyOf(start) === keyOf(ip)) return undefined;
  return `has bits beyond its prefix: the range begins at ${formatIp(start)}/${prefixLength}`;
}

/** The one spelling of a range. */
export const formatIpRange = (range: IpRange) => `${formatIp(range)}/${range.prefixLength}`;

/** The address without the bits beyond the prefix. */
export function masked({ groups }: Ip, prefixLength: number): Ip {
  return {
    groups: groups.map((group, i) => group & ~(0xffff >> Math.min(Math.max(prefixLength - i * 16, 0), 16))),
  };
}

/** A text that identifies the address. It is not for people. */
export const keyOf = ({ groups }: Ip) => String.fromCharCode(...groups);

const isIpv4 = ({ groups }: Ip) => groups.length === 2;

const widthOf = ({ groups }: Ip) => groups.length * 16;

const isMapped = ({ groups }: Ip) =>
  groups.length === 8 && groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0);

function parseUnfolded(text: string): Ip | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  if (!text.includes(':')) return parseIpv4(text);
  if (text.includes('%')) return undefined;
  const native = withoutDots(text);
  if (native === undefined || !ipaddr.IPv6.isValid(native)) return undefined;
  return { groups: ipaddr.IPv6.parse(native).parts };
}

// Accepts only four plain numbers. The library also reads `010.1` and `0x7f.1`, but other parsers read them
// differently.
function parseIpv4(text: string): Ip | undefined {
  if (!ipaddr.IPv4.isValidFourPartDecimal(text)) return undefined;
  const [a = 0, b = 0, c = 0, d = 0] = ipaddr.IPv4.parse(text).octets;
  return { groups: [(a << 8) | b, (c << 8) | d] };
}

/** Turns `::ffff:192.0.2.1` into `::ffff:c000:201`; undefined if the part with dots is not an IPv4 address. */
function withoutDots(text: string): string | undefined {
  if (!text.includes('.')) return text;
  const end = text.lastIndexOf(':') + 1;
  const groups = parseIpv4(text.slice(end))?.groups.map((group) => group.toString(16));
  return groups && text.slice(0, end) + groups.join(':');
}

function formatIp({ groups }: Ip): string {
  if (groups.length === 8) return new ipaddr.IPv6([...groups]).toString();
  return groups.map((group) => `${group >> 8}.${group & 0xff}`).join('.');
}

function splitRange(text: string): { address: string; length: string | undefined } {
  const slash = text.indexOf('/');
  return slash === -1
    ? { address: text, length: undefined }
    : { address: text.slice(0, slash), length: text.slice(slash + 1) };
}

const parseLength = (text: string) => (/^(0|[1-9]\d{0,2})$/.test(text) ? Number(text) : undefined);
