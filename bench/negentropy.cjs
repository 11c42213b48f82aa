// Reconciles two sets with negentropy's JavaScript implementation (protocol v1, vector store), both ends in
// this process:
//
//     node negentropy.cjs NEGENTROPY_JS < requests > answers
//
// A request is a line of JSON, {"a": file, "b": file, "rounds": how often}; its answer is a line too. A file
// holds an end's items, 40 bytes each: the timestamp as a little-endian u64, then the id. Filling the stores
// is told apart (build_ms); sync_ms has each round's time for both ends, from the first message to the last, and
// cpu_ms what the process took of the processors meanwhile (its compiler and collector threads included).

"use strict";

const fs = require("fs");
const path = require("path");
const readline = require("readline");

const { Negentropy, NegentropyStorageVector } = require(path.resolve(process.argv[2]));
const ITEM_BYTES = 40;

function stored(file) {
    const data = fs.readFileSync(file);
    const storage = new NegentropyStorageVector();
    for (let at = 0; at < data.length; at += ITEM_BYTES) {
        storage.insert(Number(data.readBigUInt64LE(at)), new Uint8Array(data.subarray(at + 8, at + ITEM_BYTES)));
    }
    storage.seal();
    return storage;
}

function end(storage) {
    const side = new Negentropy(storage);
    side.wantUint8ArrayOutput = true;
    return side;
}

async function reconciled(client, server) {
    const found = { bytes: 0, round_trips: 0, have: 0, need: 0 };
    let message = await client.initiate();
    while (message !== null) {
        const [answer] = await server.reconcile(message);
        found.bytes += message.length + answer.length;
        found.round_trips += 1;
        const [next, have, need] = await client.reconcile(answer);
        found.have += have.length;
        found.need += need.length;
        message = next;
    }
    return found;
}

async function answered(request) {
    let started = performance.now();
    const stores = [stored(request.a), stored(request.b)];
    const answer = { build_ms: performance.now() - started, sync_ms: [], cpu_ms: [] };
    for (let round = 0; round < request.rounds; round++) {
        const used = process.cpuUsage();
        started = performance.now();
        const found = await reconciled(end(stores[0]), end(stores[1]));
        answer.sync_ms.push(performance.now() - started);
        const { user, system } = process.cpuUsage(used);
        answer.cpu_ms.push((user + system) / 1000);
        Object.assign(answer, found);
    }
    return answer;
}

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        process.stdout.write(JSON.stringify(await answered(JSON.parse(line))) + "\n");
    }
}

main();
