# A line in, a line out: {"encode": message} -> {"bytes"}, {"decode": bytes} -> {"message"} or {"error"}.
import std/[json, strutils]
import results
import sds/protobuf
import sds/types/[sds_message_id, history_entry, sds_message]

proc octets(text: string): seq[byte] = cast[seq[byte]](parseHexStr(text))
proc hex(data: seq[byte]): string = toLowerAscii(toHex(cast[string](data)))

proc entry(node: JsonNode): HistoryEntry =
  HistoryEntry.init(
    node["message_id"].getStr,
    octets(node{"retrieval_hint"}.getStr),
    node{"sender_id"}.getStr.SdsParticipantID,
  )

proc entries(node: JsonNode): seq[HistoryEntry] =
  for item in node.getElems: result.add(entry(item))

proc shown(list: seq[HistoryEntry]): JsonNode =
  result = newJArray()
  for item in list:
    var node = %*{"message_id": item.messageId}
    if item.retrievalHint.len > 0: node["retrieval_hint"] = %hex(item.retrievalHint)
    if item.senderId.len > 0: node["sender_id"] = %item.senderId.string
    result.add(node)

for line in stdin.lines:
  let request = parseJson(line)
  if request.hasKey("encode"):
    let m = request["encode"]
    let message = SdsMessage.init(
      m["message_id"].getStr, parseBiggestInt(m["lamport_timestamp"].getStr), entries(m["causal_history"]),
      m["channel_id"].getStr, octets(m{"content"}.getStr), octets(m{"bloom_filter"}.getStr),
      m["sender_id"].getStr.SdsParticipantID, entries(m["repair_request"]))
    echo(%*{"bytes": hex(serializeMessage(message).get())})
  else:
    let found = deserializeMessage(octets(request["decode"].getStr))
    if found.isErr: echo(%*{"error": $found.error}); continue
    let m = found.get()
    var node = %*{"sender_id": m.senderId.string, "message_id": m.messageId, "channel_id": m.channelId,
      "lamport_timestamp": $m.lamportTimestamp, "causal_history": shown(m.causalHistory),
      "repair_request": shown(m.repairRequest)}
    if m.bloomFilter.len > 0: node["bloom_filter"] = %hex(m.bloomFilter)
    if m.content.len > 0: node["content"] = %hex(m.content)
    echo(%*{"message": node})
