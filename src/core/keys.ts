// The only place where counter keys are made. Whatever a subject contains, two of them never share a key,
// and the key is short: what is long or unusual is replaced by its digest.
import type { Rule } from './rule.ts';

const PLAIN = /^[A-Za-z0-9.:_-]{1,64}$/;

export async function counterKey(rule: Rule, subject: string): Promise<string> {
  return `weir:{${rule.scope}:${await subjectTag(subject)}}:${rule.id}`;
}

// '=' and '#' cannot both start a tag for the same subject, so a plain subject never collides with a digest.
async function subjectTag(subject: string): Promise<string> {
  if (PLAIN.test(subject)) return `=${subject}`;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(subject));
  return `#${Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}
