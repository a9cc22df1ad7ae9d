// Sends requests to the app of docs/library.md until it denies one.
const MAX_ASKED = 20;

/** What a Worker and a server of Node answer alike. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  text(): Promise<string>;
}

export async function untilDenied(ask: () => Promise<Answer>) {
  for (let passed = 0; passed < MAX_ASKED; passed += 1) {
    const response = await ask();
    if (response.status === 429) return { passed, denied: response };
    const body = await response.text();
    if (response.status !== 200) throw new Error(`${response.status} ${body}`);
  }
  throw new Error(`none of ${MAX_ASKED} requests was denied`);
}
