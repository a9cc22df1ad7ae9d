// Passes a request on to the origin and its answer back, both streamed.
import { problem } from './problem.ts';

export interface ProxyTarget {
  readonly originUrl: string;
  /** Canonical: what was matched is what the origin sees. */
  readonly path: string;
  readonly query: string;
}

export async function proxy(request: Request, { originUrl, path, query }: ProxyTarget): Promise<Response> {
  try {
    const passedOn = new Request(`${originUrl}${path}${query}`, request);
    passedOn.headers.delete('X-Weir-Region');
    const answer = await fetch(passedOn, { redirect: 'manual' });
    // A copy, because the headers of what fetch returns cannot be changed.
    return new Response(answer.body, answer);
  } catch {
    return problem({
      status: 502,
      code: 'origin-unreachable',
      title: 'The origin did not answer',
      detail: 'Weir could not get an answer from the API behind it.',
    });
  }
}
