// A connection to the inspector of one Worker in workerd, over the protocol of Chrome's developer tools.
import { once } from 'node:events';

export interface Inspector extends Disposable {
  call<T>(method: string, params?: object): Promise<T>;
}

interface Reply {
  readonly id?: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
}

export async function connectInspector(url: string): Promise<Inspector> {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (reply: Reply) => void>();
  socket.addEventListener('message', ({ data }) => {
    const reply = JSON.parse(String(data)) as Reply;
    if (reply.id !== undefined) waiting.get(reply.id)?.(reply);
  });
  await once(socket, 'open');
  let lastId = 0;
  return {
    async call<T>(method: string, params: object = {}) {
      lastId += 1;
      const id = lastId;
      const replied = new Promise<Reply>((resolve) => waiting.set(id, resolve));
      socket.send(JSON.stringify({ id, method, params }));
      const { result, error } = await replied;
      waiting.delete(id);
      if (error) throw new Error(`${method}: ${error.message}`);
      return result as T;
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
