// Tests run on real redis-servers: have one before the first test, or say what to install.
import { findOrInstallRedis } from '../local/redis-server.ts';

export default async function setup(): Promise<void> {
  await findOrInstallRedis({ say: (line) => console.log(line) });
}
