// The Upstash library, configured for Workers. It is a module of its own and is loaded on first use: its classes would
// be a quarter of the code that a cold isolate evaluates.
import { Redis } from '@upstash/redis/cloudflare';

export interface Library {
  /** Issues a command under this signal. */
  issue<T>(signal: AbortSignal, command: (redis: Redis) => Promise<T>): Promise<T>;
}

export function createLibrary(url: string, token: string): Library {
  let nextSignal: AbortSignal | undefined;
  const redis = new Redis({
    url,
    token,
    // Auto-pipelining would join commands of different requests in one promise, which Workers forbid.
    enableAutoPipelining: false,
    // A retried command could run twice, and its backoff knows nothing of our deadline.
    retry: { retries: 0 },
    automaticDeserialization: false,
    responseEncoding: false,
    readYourWrites: false,
    enableTelemetry: false,
    // Only a function makes an abort throw; a plain signal turns it into a reply that looks like success.
    signal: () => nextSignal ?? AbortSignal.abort(),
  });
  return {
    issue(signal, command) {
      // The library reads the signal synchronously when it issues the command, so no other request can come between
      // these two lines.
      nextSignal = signal;
      return command(redis);
    },
  };
}
