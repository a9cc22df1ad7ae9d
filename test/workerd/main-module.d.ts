// Makes `exports.default` of cloudflare:workers the Worker under test.
declare namespace Cloudflare {
  interface GlobalProps {
    mainModule: typeof import('../../src/worker.ts');
  }
}
