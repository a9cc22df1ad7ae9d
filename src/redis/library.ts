// The Upstash library, made fit for Workers. It is a module of its own, loaded when it is first needed: its classes for
// all commands are a quarter of what a cold isolate would evaluate.
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
    // Auto-pipelining would join commands of different requests in one promise: forbidden on Workers.
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
      // The library reads its signal synchronously while the command is being issued: no other request can come
      // between these two lines.
      nextSignal = signal;
      return command(redis);
    },
  };
}
