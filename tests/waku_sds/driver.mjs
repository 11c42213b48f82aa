// Channels of @waku/sds behind one JSON object a line; see README.md. Time is an argument: the clock of this
// process stands wherever the last request put it.
import { createInterface } from "node:readline";
import { Message, MessageChannel, MessageChannelEvent } from "@waku/sds";
import { hex, messageFromJson, messageToJson, octets } from "./message_json.mjs";

let now = 0;
Date.now = () => now;
// The ids of its syncs: the same in every run.
let syncs = 0;
Math.random = () => ++syncs / 2 ** 32;

// Two of the events are sent under names of their own.
const EVENTS = [...Object.values(MessageChannelEvent), "RepairRequestQueued", "RepairResponseQueued"];
const channels = new Map();

const plain = (value) => {
  if (value instanceof Message) return { message_id: value.messageId };
  if (value instanceof Error) return { message: value.message };
  if (value instanceof Uint8Array) return hex(value);
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value ?? null;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
};

class Host {
  constructor({ channel_id, participant_id, options = {} }) {
    this.channel = new MessageChannel(channel_id, participant_id, options);
    this.events = [];
    this.sent = [];
    for (const name of EVENTS) {
      this.channel.addEventListener(name, ({ detail }) => this.events.push({ kind: name, detail: plain(detail) }));
    }
  }

  // What was sent and what happened since the last answer.
  said() {
    const answer = { send: this.sent, events: this.events };
    this.sent = [];
    this.events = [];
    return answer;
  }

  carry = async (message) => {
    this.sent.push(hex(message.encode()));
  };
}

const host = ({ name }) => {
  const found = channels.get(name);
  if (found === undefined) throw new Error(`no channel ${name}`);
  return found;
};

const OPERATIONS = {
  open(request) {
    channels.set(request.name, new Host(request));
    return {};
  },
  async send(request) {
    const { channel, carry } = host(request);
    const content = octets(request.content);
    if (request.ephemeral) {
      await channel.pushOutgoingEphemeralMessage(content, async (message) => (await carry(message), true));
    } else {
      channel.pushOutgoingMessage(content, async (message) => {
        await carry(message);
        const hint = request.retrieval_hint;
        return { success: true, ...(hint !== undefined && { retrievalHint: octets(hint) }) };
      });
    }
    await channel.processTasks();
    return host(request).said();
  },
  async receive(request) {
    const message = Message.decode(octets(request.bytes));
    if (message === undefined) return { ...host(request).said(), kind: null };
    const hint = request.retrieval_hint;
    const { channel } = host(request);
    channel.pushIncomingMessage(message, hint === undefined ? undefined : octets(hint));
    await channel.processTasks();
    return { ...host(request).said(), kind: message.constructor.name, content: plain(message.content) };
  },
  async sync(request) {
    const { channel, carry } = host(request);
    await channel.pushOutgoingSyncMessage(async (message) => (await carry(message), true));
    return host(request).said();
  },
  sweep_incoming(request) {
    const missing = host(request).channel.sweepIncomingBuffer();
    return { missing: missing.map(({ messageId }) => messageId), ...host(request).said() };
  },
  async sweep_outgoing(request) {
    const { unacknowledged, possiblyAcknowledged } = host(request).channel.sweepOutgoingBuffer();
    // What its callers do: they send the same content again, and it finds the message of it.
    for (const message of unacknowledged) await OPERATIONS.resend(request, message.content);
    return {
      unacknowledged: unacknowledged.map(({ messageId }) => messageId),
      possibly_acknowledged: possiblyAcknowledged.map(({ messageId }) => messageId),
      ...host(request).said(),
    };
  },
  async resend(request, content) {
    const { channel, carry } = host(request);
    channel.pushOutgoingMessage(content, async (message) => (await carry(message), { success: true }));
    await channel.processTasks();
  },
  async sweep_repair(request) {
    const { channel, carry } = host(request);
    await channel.sweepRepairIncomingBuffer(async (message) => (await carry(message), true));
    return host(request).said();
  },
  state(request) {
    const { channel } = host(request);
    const ids = (messages) => messages.map(({ messageId }) => messageId);
    return {
      lamport: channel.lamportTimestamp.toString(),
      log: channel.localHistory.slice(0).map((one) => [one.lamportTimestamp.toString(), one.messageId]),
      outgoing: ids(channel.outgoingBuffer),
      incoming: ids(channel.incomingBuffer),
      bloom: hex(channel.filter.toBytes()),
    };
  },
  encode: (request) => ({ bytes: hex(messageFromJson(request.message).encode()) }),
  decode(request) {
    const message = Message.decode(octets(request.bytes));
    return { message: message === undefined ? null : messageToJson(message) };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    const request = JSON.parse(line);
    if (request.now !== undefined) now = request.now;
    answer = { ok: await OPERATIONS[request.do](request) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
