// One connection that sends several requests at once and reads the statuses of their answers. It costs the machine a small
// part of what `fetch` would, so that the flood is the Worker's work.
import { once } from 'node:events';
import { connect } from 'node:net';

export interface Pipeline extends AsyncDisposable {
  /** The statuses, in the order of the requests. */
  ask(requests: readonly string[]): Promise<number[]>;
}

/** Bodies are JSON, which has no line that looks like this. */
const STATUS_LINE = /HTTP\/1\.1 (\d{3}) [^\r]*\r\n/g;
/** Longer than the part of a status line that a piece can end with. */
const KEPT_CHARACTERS = 64;

export async function openPipeline(url: string): Promise<Pipeline> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await once(socket, 'connect');
  socket.setEncoding('latin1');
  let text = '';
  return {
    async ask(requests) {
      const statuses: number[] = [];
      socket.write(requests.join(''));
      while (statuses.length < requests.length) {
        const [piece] = (await once(socket, 'data', { signal: AbortSignal.timeout(60_000) })) as [string];
        text += piece;
        let readTo = 0;
        for (const match of text.matchAll(STATUS_LINE)) {
          statuses.push(Number(match[1]));
          readTo = match.index + match[0].length;
        }
        text = text.slice(Math.max(readTo, text.length - KEPT_CHARACTERS));
      }
      return statuses;
    },
    async [Symbol.asyncDispose]() {
      socket.destroy();
    },
  };
}
