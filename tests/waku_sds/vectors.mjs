// Writes tests/vectors/sds/js-messages.json: what @waku/sds makes of messages, and of bytes.
// node vectors.mjs > ../vectors/sds/js-messages.json
import { Message } from "@waku/sds";
import { hex, messageFromJson, messageToJson, octets } from "./message_json.mjs";

// xorshift32 with a fixed start: the same rows every time.
let state = 0x5d5c0de;
const draw = (below) => {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
};
const hexDraw = (size) => Array.from({ length: size }, () => draw(256).toString(16).padStart(2, "0")).join("");
const usual = {
  sender_id: "alice",
  message_id: "a1".repeat(32),
  channel_id: "channel",
  lamport_timestamp: "1763760000000",
};
const entry = (count) => ({
  message_id: count.toString(16).padStart(2, "0").repeat(32),
  ...(count % 2 && { retrieval_hint: "77".repeat(32) }),
  ...(count % 3 && { sender_id: `sender-${count}` }),
});
const entries = (count) => Array.from({ length: count }, (_, index) => entry(index));

const named = {
  content: { ...usual, content: "6f6b" },
  "content, history, filter and repair requests": {
    ...usual,
    causal_history: entries(3),
    bloom_filter: "0102030405060708",
    content: "6f6b",
    repair_request: entries(2),
  },
  "history of 200": { ...usual, causal_history: entries(200), content: "6f6b" },
  sync: { ...usual, causal_history: entries(2), bloom_filter: "ff" },
  "sync with empty content": { ...usual, content: "" },
  ephemeral: { sender_id: "alice", message_id: "e1", channel_id: "channel", content: "6f6b" },
  "ephemeral with history and filter": {
    sender_id: "alice",
    message_id: "e1",
    channel_id: "channel",
    causal_history: entries(1),
    bloom_filter: "00",
    content: "6f6b",
  },
  "lamport 0": { ...usual, lamport_timestamp: "0", content: "00" },
  "lamport 127": { ...usual, lamport_timestamp: "127", content: "00" },
  "lamport 128": { ...usual, lamport_timestamp: "128", content: "00" },
  "lamport 2^31 - 1": { ...usual, lamport_timestamp: "2147483647", content: "00" },
  "lamport 2^53": { ...usual, lamport_timestamp: "9007199254740992", content: "00" },
  "lamport 2^63": { ...usual, lamport_timestamp: "9223372036854775808", content: "00" },
  "lamport 2^64 - 1": { ...usual, lamport_timestamp: "18446744073709551615", content: "00" },
  "empty sender": { ...usual, sender_id: "", content: "00" },
  "empty message id": { ...usual, message_id: "", content: "00" },
  "empty channel": { ...usual, channel_id: "", content: "00" },
  "all ids empty": { sender_id: "", message_id: "", channel_id: "", lamport_timestamp: "1", content: "00" },
  "empty filter": { ...usual, bloom_filter: "", content: "00" },
  "empty hint and sender of an entry": {
    ...usual,
    causal_history: [{ message_id: "x", retrieval_hint: "", sender_id: "" }],
    content: "00",
  },
  "empty entry": { ...usual, causal_history: [{ message_id: "" }], content: "00" },
  "unicode ids": {
    sender_id: "Ζωή",
    message_id: "сообщение-✉",
    channel_id: "频道 🌾",
    lamport_timestamp: "5",
    causal_history: [{ message_id: "é", sender_id: "naïve\u0000" }],
    content: "f09f8cbe",
  },
  "default filter": { ...usual, bloom_filter: hexDraw(18_752), content: "6f6b" },
  "content of 128 bytes": { ...usual, content: "ab".repeat(128) },
  "content of 2,000 bytes": { ...usual, content: hexDraw(2_000) },
  "only repair requests": { ...usual, repair_request: entries(5) },
};
// protons-runtime 5.6.0 writes the numbers from 2^31 to 2^32 - 1 in bytes that nobody can read.
const sayable = (number) => (number >> 31n === 1n ? number - (1n << 31n) : number);
const drawn = Object.fromEntries(
  Array.from({ length: 60 }, (_, index) => {
    const message = {
      sender_id: "s".repeat(draw(200)),
      message_id: hexDraw(draw(40)),
      channel_id: `канал-${draw(9)}`.slice(0, draw(8)),
      causal_history: entries(draw(6)),
      repair_request: entries(draw(4)),
    };
    if (draw(4)) message.lamport_timestamp = sayable(BigInt(draw(2 ** 32)) << BigInt(draw(33))).toString();
    if (draw(2)) message.bloom_filter = hexDraw(draw(300));
    if (draw(4) || message.lamport_timestamp === undefined) message.content = hexDraw(1 + draw(300));
    return [`drawn ${index}`, message];
  }),
);
const encoded = Object.entries({ ...named, ...drawn }).map(([name, message]) => ({
  name,
  message,
  bytes: hex(messageFromJson(message).encode()),
}));

const ids = "0a0161" + "120162" + "1a0163";
const received = {
  "nothing at all": "",
  "ids alone": ids,
  "lamport alone": "5001",
  "content alone": "a2010178",
  "empty content alone": "a20100",
  "lamport and empty content": `${ids}5001a20100`,
  "fields in any order": `a20101785001${ids}`,
  "unknown varint": `${ids}2096015001a2010178`,
  "unknown fixed64": `${ids}2101020304050607085001a2010178`,
  "unknown fixed32": `${ids}25010203045001a2010178`,
  "unknown bytes": `${ids}22030102035001a2010178`,
  "unknown group": `${ids}230801245001a2010178`,
  "unknown field in an entry": `${ids}5a05200a0a01645001a2010178`,
  "two senders": `${ids}0a01655001a2010178`,
  "two lamports": `${ids}500150025001a2010178`,
  "two contents": `${ids}5001a2010178a2010179`,
  "content, then empty content": `${ids}5001a2010178a20100`,
  "two filters": `${ids}50016201016202ffff`,
  "an id of an entry twice": `${ids}50015a060a01640a0165`,
  "history around other fields": `${ids}5a030a01645001a20101785a030a0165`,
  "lamport with more bytes than needed": `${ids}50818000a2010178`,
  "length with more bytes than needed": `${ids}5001a20181800078`,
  "tag with more bytes than needed": `${ids}d0800001a2010178`,
  "negative int32": `${ids}50ffffffffffffffffff01a2010178`,
  "ends in a tag": `${ids}5001a2`,
  "ends in a length": `${ids}5001a20180`,
  "ends in content": `${ids}5001a2010278`,
  "ends in an entry": `${ids}50015a0a0a0164`,
  "ends in an entry's id": `${ids}50015a030a0564`,
  "ends in a number": `${ids}50ff`,
  "number of 11 bytes": `${ids}50ffffffffffffffffffff01`,
  "nim layout": "0a016110011a030a016222016c2a017832003a0173",
};
const decoded = Object.entries(received).map(([name, bytes]) => {
  const message = Message.decode(octets(bytes));
  return { name, bytes, message: message === undefined ? null : messageToJson(message) };
});

const rows = (list) => `[\n${list.map((row) => JSON.stringify(row)).join(",\n")}\n]`;
process.stdout.write(`{"encoded": ${rows(encoded)},\n"decoded": ${rows(decoded)}}\n`);
