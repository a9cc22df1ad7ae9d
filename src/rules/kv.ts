// What is used of Workers KV.

export interface Kv {
  get(name: string): Promise<string | null>;
  put(name: string, text: string, options?: KvOptions): Promise<void>;
  delete(name: string): Promise<void>;
  list(options: { readonly prefix: string }): Promise<{ readonly keys: readonly KvEntry[] }>;
}

export interface KvOptions {
  expirationTtl?: number;
  metadata?: { readonly writtenAtMs: number };
}

export interface KvEntry {
  readonly name: string;
  /** In epoch seconds. */
  readonly expiration?: number;
  readonly metadata?: unknown;
}
