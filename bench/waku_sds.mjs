// Runs @waku/sds for the benchmarks: node waku_sds.mjs PACKAGE_FOLDER, a request as JSON on standard input.
// {"do": "bloom", "ids"} -> inserts, hits, misses a second.
// {"do": "channel", "messages", "history", "sync_every"} -> seconds, and of the processors, of send + encode + decode + receive.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const dist = pathToFileURL(join(process.argv[2], "dist") + "/");
const { Message, MessageChannel } = await import(new URL("index.js", dist));
const { DefaultBloomFilter } = await import(new URL("bloom_filter/bloom.js", dist));
const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const hexId = (name) => createHash("sha256").update(name).digest("hex");

function rate(ids, action) {
  const started = seconds();
  for (const id of ids) action(id);
  return ids.length / (seconds() - started);
}

function bloom({ ids: count }) {
  const made = (name) => Array.from({ length: count }, (_, index) => hexId(`${name}-${index}`));
  const inside = made("id");
  const filter = new DefaultBloomFilter({ capacity: 10000, errorRate: 0.001 });
  const inserts = rate(inside, (id) => filter.insert(id));
  return { inserts, hits: rate(inside, (id) => filter.lookup(id)), misses: rate(made("no"), (id) => filter.lookup(id)) };
}

async function channel({ messages, history, sync_every: syncEvery }) {
  const options = { causalHistorySize: history };
  const alice = new MessageChannel("bench", "alice", options);
  const bob = new MessageChannel("bench", "bob", options);
  const encoder = new TextEncoder();
  let bytes = 0;
  const carried = async (message, receiver) => {
    const wire = message.encode();
    bytes += wire.length;
    receiver.pushIncomingMessage(Message.decode(wire));
    await receiver.processTasks();
    return { success: true };
  };
  const cpuBefore = process.cpuUsage();
  const started = seconds();
  for (let index = 1; index <= messages; index++) {
    alice.pushOutgoingMessage(encoder.encode(`message ${index}`), (message) => carried(message, bob));
    await alice.processTasks();
    if (syncEvery && index % syncEvery === 0) await bob.pushOutgoingSyncMessage((message) => carried(message, alice));
  }
  const took = seconds() - started;
  const { user, system } = process.cpuUsage(cpuBefore);
  return { seconds: took, cpu_seconds: (user + system) / 1e6, bytes, log: bob.localHistory.length, outgoing: alice.outgoingBuffer.length };
}

const request = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await { bloom, channel }[request.do](request)));
