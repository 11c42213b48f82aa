// Writes tests/vectors/sds/bloom-js.jsonl: bloom filters as @waku/sds makes them.
// node blooms.mjs > ../vectors/sds/bloom-js.jsonl
import { createHash } from "node:crypto";
// The package does not export its filter.
import { DefaultBloomFilter } from "./node_modules/@waku/sds/dist/bloom_filter/bloom.js";

const sha256 = (data) => createHash("sha256").update(data).digest("hex");
const hexId = (name) => sha256(`id-${name}`);
const rules = {
  hex: hexId,
  sync: (index) => `sync-${index.toString(36)}`,
  length: (index) => "x".repeat(index % 131),
  greek: (index) => `μήνυμα ${index}`,
  latin1: (index) => `café ${index}`,
  emoji: (index) => `${index} 👍🏽 ok`,
};

function write(rule, count, capacity, errorRate) {
  const filter = new DefaultBloomFilter({ capacity, errorRate });
  for (let index = 0; index < count; index++) filter.insert(rules[rule](index));
  const bytes = filter.toBytes();
  const falseHits = [];
  for (let index = 0; index < 200; index++) if (filter.lookup(hexId(`absent-${index}`))) falseHits.push(index);
  const row = {
    rule,
    count,
    capacity,
    error_rate: errorRate,
    bits: filter.totalBits,
    hashes: filter.kHashes,
    size: bytes.length,
    sha256: sha256(bytes),
    false_hits: falseHits,
  };
  if (bytes.length <= 200) row.bytes = Buffer.from(bytes).toString("hex");
  else if (count <= 1) row.set = [...bytes].map((byte, at) => [at, byte]).filter(([, byte]) => byte);
  console.log(JSON.stringify(row));
}

for (const count of [0, 1, 2, 10, 100, 1000, 10000, 12000]) write("hex", count, 10000, 0.001);
for (const rule of Object.keys(rules).slice(1)) for (const count of [1, 300]) write(rule, count, 10000, 0.001);
const others = [[1, 0.001], [1, 0.5], [1, 0.9], [10, 0.01], [64, 0.3], [100, 0.001], [128, 0.1], [1000, 0.01]];
others.push([1000, 0.0001], [4096, 0.05], [50000, 1e-6]);
for (const [capacity, errorRate] of others) write("hex", Math.min(capacity, 500), capacity, errorRate);
