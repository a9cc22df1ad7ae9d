// The part of the Workers KV interface that Weir uses.

export interface Kv {
  get(name: string): Promise<string | null>;
  put(name: string, text: string, options?: KvOptions): Promise<void>;
}

export interface KvOptions {
  expirationTtl?: number;
}
