// Writes tests/vectors/sds/repair-js.json: when @waku/sds asks for a missing message, when and who answers.
// node repair.mjs > ../vectors/sds/repair-js.json
// The package does not export its repair.
import { RepairManager } from "./node_modules/@waku/sds/dist/message_channel/repair/repair.js";

const people = ["alice", "bob", "0x02f1c9a6b7", "Zoë", "участник-7", "🦊"];
const ids = [
  "m1",
  "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  "",
  "naïve-id",
  "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752",
];
const times = [[30000, 120000], [30000, 300000], [1, 1000]];

const requests = [];
const responses = [];
const groups = [];
for (const id of ids) {
  for (const participant of people) {
    for (const [tMin, tMax] of times) {
      const manager = new RepairManager(participant, { tMin, tMax });
      requests.push([participant, id, tMin, tMax, manager.calculateTReq(id, 0)]);
    }
    for (const sender of people.slice(0, 4)) {
      const manager = new RepairManager(participant, { tMax: 120000 });
      responses.push([participant, sender, id, 120000, manager.calculateTResp(sender, id, 0)]);
      for (const count of [1, 2, 7]) {
        const member = new RepairManager(participant, { numResponseGroups: count });
        groups.push([participant, sender, id, count, member.isInResponseGroup(sender, id)]);
      }
    }
  }
}
const counts = [0, 1, 127, 128, 129, 255, 256, 1000, 12800].map((participants) => {
  const manager = new RepairManager("alice");
  manager.updateResponseGroups(participants);
  return [participants, manager.config.numResponseGroups];
});

const lines = (rows) => rows.map((row) => `  ${JSON.stringify(row)}`).join(",\n");
const parts = { requests, responses, groups, counts };
console.log(`{${Object.entries(parts).map(([name, rows]) => `\n"${name}": [\n${lines(rows)}\n]`).join(",")}\n}`);
