// A message of @waku/sds as JSON, in the form of docs/conform.md, and back.
import { Message } from "@waku/sds";

export const hex = (data) => Buffer.from(data).toString("hex");
export const octets = (text) => new Uint8Array(Buffer.from(text, "hex"));

const entryToJson = (entry) => ({
  message_id: entry.messageId,
  ...(entry.retrievalHint !== undefined && { retrieval_hint: hex(entry.retrievalHint) }),
  ...(entry.senderId !== undefined && { sender_id: entry.senderId }),
});

const entryFromJson = (entry) => ({
  messageId: entry.message_id,
  ...(entry.retrieval_hint !== undefined && { retrievalHint: octets(entry.retrieval_hint) }),
  ...(entry.sender_id !== undefined && { senderId: entry.sender_id }),
});

export const messageToJson = (message) => ({
  sender_id: message.senderId,
  message_id: message.messageId,
  channel_id: message.channelId,
  // Decimal digits: the number may be beyond what JSON readers of JavaScript hold.
  ...(message.lamportTimestamp !== undefined && { lamport_timestamp: message.lamportTimestamp.toString() }),
  causal_history: message.causalHistory.map(entryToJson),
  ...(message.bloomFilter !== undefined && { bloom_filter: hex(message.bloomFilter) }),
  ...(message.content !== undefined && { content: hex(message.content) }),
  repair_request: message.repairRequest.map(entryToJson),
});

export const messageFromJson = (json) =>
  new Message(
    json.message_id,
    json.channel_id,
    json.sender_id,
    (json.causal_history ?? []).map(entryFromJson),
    json.lamport_timestamp === undefined ? undefined : BigInt(json.lamport_timestamp),
    json.bloom_filter === undefined ? undefined : octets(json.bloom_filter),
    json.content === undefined ? undefined : octets(json.content),
    (json.repair_request ?? []).map(entryFromJson),
  );
