// The signature of a webhook, compared with the example that Standard Webhooks publishes and with another
// implementation.
import { createHmac } from 'node:crypto';
import { expect, it } from 'vitest';
import { signedHeaders } from '../../src/telemetry/alerts.ts';

it('the published example gets the published signature', async () => {
  const message = {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    nowMs: 1_614_265_330_000,
    body: '{"test": 2432232314}',
  };
  expect(await signedHeaders('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', message)).toEqual({
    'webhook-id': message.id,
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  });
});

it.each(['{}', '{"subject":"Zoë Žižek 名"}', 'x'.repeat(100_000)])(
  'the bytes of a body are signed: %#',
  async (body) => {
    const key = Buffer.from(Array.from({ length: 64 }, (_, i) => (i * 37) % 256));
    const signed = await signedHeaders(`whsec_${key.toString('base64')}`, {
      id: 'msg_1',
      nowMs: 1_999,
      body,
    });
    const expected = createHmac('sha256', key).update(`msg_1.1.${body}`).digest('base64');
    expect(signed['webhook-signature']).toBe(`v1,${expected}`);
  },
);
