// Admin authentication: a bearer token, compared in constant time.

/** Both sides are hashed first, so that neither content nor length shows in the time it takes. */
export async function isAdmin(request: Request, adminToken: string): Promise<boolean> {
  const given = /^Bearer (.+)$/i.exec(request.headers.get('Authorization') ?? '')?.[1] ?? '';
  const [a, b] = await Promise.all([sha256(given), sha256(adminToken)]);
  return crypto.subtle.timingSafeEqual(a, b);
}

const sha256 = (text: string) => crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
