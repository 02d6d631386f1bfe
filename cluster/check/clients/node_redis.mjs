// The examples of node-redis' own pages, with keys of 8 bytes and values of 4096.
//
//     node node_redis.mjs HOST PORT OTHER_HOST OTHER_PORT
//
// The client has its defaults, but for the addresses of two nodes. It ends with a failure at the first
// reply that is wrong.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

// The packages lie where the environment says, and not beside this file.
const { createClient } = createRequire(process.env.NODE_REDIS_DIR + '/')('redis');

const value = (number) => `value ${number} `.padEnd(4096, '.');

async function strings(client, other) {
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.get('no000001'), null);
  assert.equal(await client.set('no000001', value(1)), 'OK');
  assert.equal(await client.get('no000001'), value(1));
  assert.equal(await other.get('no000001'), value(1));
  assert.equal(await client.mSet([['no000002', value(2)], ['no000003', value(3)]]), 'OK');
  assert.deepEqual(await client.mGet(['no000003', 'no000009']), [value(3), null]);
  assert.equal(await client.exists(['no000001', 'no000009']), 1);
  assert.equal(await client.strLen('no000001'), 4096);
  assert.equal(await client.type('no000001'), 'string');
  assert.equal(await client.ttl('no000001'), -1);
  assert.equal(await client.pTTL('no000009'), -2);
  assert.deepEqual(await client.keys('no*'), ['no000001', 'no000002', 'no000003']);
  assert.deepEqual({ ...await client.hGetAll('no000009') }, {});
  assert.equal(await client.unlink('no000003'), 1);
  assert.equal(await client.del(['no000002', 'no000009']), 1);
  await assert.rejects(client.hGet('no000001', 'field'), /WRONGTYPE/);
  await assert.rejects(client.set('foo', 'bar'), /not 3 and 3/);
  await assert.rejects(client.setNX('no000001', value(1)), /SETNX is not served/);
  await assert.rejects(client.expire('no000001', 10), /nothing expires/);
}

async function transactions(client) {
  assert.deepEqual(await client.multi().set('no000001', value(5)).get('no000001')
    .del('no000001').get('no000001').set('no000002', value(2)).exec(),
  ['OK', value(5), 1, null, 'OK']);
  assert.deepEqual(await client.multi().get('no000002').get('no000009').exec(), [value(2), null]);
  await assert.rejects(client.multi().set('no000001', value(1)).set('\x00'.repeat(8), value(1)).exec());
  assert.equal(await client.get('no000001'), null);
  assert.deepEqual(await client.multi().set('no000001', value(1)).get('no000001').execAsPipeline(),
    ['OK', value(1)]);
  await assert.rejects(client.watch('no000001'), /WATCH is not served/);
  assert.equal(await client.del(['no000001', 'no000002']), 2);
}

async function scans(client) {
  const written = [];
  for (let i = 0; i < 100; ++i) written.push(`no1${String(i).padStart(5, '0')}`);
  await Promise.all(written.map((key) => client.set(key, value(key))));
  const found = [];
  for await (const keys of client.scanIterator({ MATCH: 'no1*', COUNT: 7 })) found.push(...keys);
  assert.deepEqual(found, written);
  // A cursor that becomes a number and text again is the same.
  let calls = 0, cursor = '0';
  do {
    const page = await client.scan(cursor, { COUNT: 7 });
    assert.equal(String(Number(page.cursor)), page.cursor);
    assert.ok(Number.isSafeInteger(Number(page.cursor)) && ++calls < 200, 'the loop does not end');
    cursor = page.cursor;
  } while (cursor !== '0');
  assert.equal(await client.del(found), 100);
}

async function servers(client) {
  assert.match(await client.info('server'), /redis_version:\d/);
  assert.deepEqual({ ...await client.configGet('maxmemory') }, { maxmemory: '0' });
  assert.ok(await client.commandCount() > 30);
  assert.ok((await client.command()).some(({ name, arity }) => name === 'get' && arity === 2));
  assert.equal(await client.clientSetName('tester'), 'OK');
  assert.equal(await client.clientGetName(), 'tester');
  const id = await client.clientId();
  assert.ok((await client.clientList()).some((listed) => listed.id === id));
  assert.equal(await client.dbSize(), 0);
}

const [host, port, otherHost, otherPort] = process.argv.slice(2);
for (const RESP of [undefined, 2, 3]) {
  const clients = [];
  for (const url of [`redis://${host}:${port}`, `redis://${otherHost}:${otherPort}`]) {
    clients.push(await createClient(RESP ? { url, RESP } : { url })
      .on('error', (error) => { throw error; }).connect());
  }
  await strings(...clients);
  await clients[0].del('no000001');
  await transactions(clients[0]);
  await scans(clients[0]);
  await servers(clients[0]);
  for (const client of clients) await client.close();
}
