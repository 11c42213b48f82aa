// What a page does at a door of DAGs, in a browser or in node: brings, reads, verifies, listens. Answers what it saw.

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))

/** Events of a stream from one mark on, until so many came: as `fetch` gives them. */
async function events (door, id, count, last) {
  const stop = new AbortController()
  const headers = last === undefined ? {} : { 'Last-Event-ID': last }
  const answer = await door.ask(`/events?id=${id}`, { headers, signal: stop.signal })
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  const found = []
  for (let text = ''; found.length < count;) {
    const { value, done } = await reader.read()
    if (done) break
    const parts = (text + value).split('\n\n')
    text = parts.pop()
    for (const part of parts) {
      const fields = Object.fromEntries(part.split('\n').map((line) => line.split(/: (.*)/s)))
      if (fields.event) found.push({ event: fields.event, id: fields.id, data: JSON.parse(fields.data) })
    }
  }
  stop.abort()
  return found
}

/** The next event of a name, by the browser's own EventSource. */
function heard (door, id, name) {
  return new Promise((resolve) => {
    const source = door.events(id)
    source.addEventListener(name, (event) => {
      source.close()
      resolve(JSON.parse(event.data))
    })
  })
}

/** Everything of the door's table that a page uses. */
export async function trial (client, given) {
  const { Cid, Door, DoorError, TotalOrder } = client
  const door = new Door(given.door)
  const shard = bytesOf(given.shard)
  const blockOf = ({ cid, bytes }) => ({ cid: Cid.parse(cid), bytes: bytesOf(bytes) })
  const saw = { agent: globalThis.navigator?.userAgent ?? `node ${globalThis.process?.version}` }

  const path = `/shards/${given.shard_cid}?space=${given.id}`
  const first = { 'Content-Range': `bytes 0-917503/${shard.length}` }
  saw.first_part = (await door.ask(path, { method: 'PUT', headers: first, body: shard.slice(0, 917504) })).status
  saw.ranges = (await door.ask(path, { method: 'HEAD' })).headers.get('Culm-Ranges')
  const progress = []
  saw.shard = (await door.putShard(given.id, shard, (sent) => progress.push(sent))).text
  saw.progress = progress
  saw.size = (await door.ask(path, { method: 'HEAD' })).headers.get('Culm-Size')
  try {
    await door.ask(`/shards/${given.shard_cid}x?space=${given.id}`, { method: 'PUT', body: shard.slice(0, 10) })
  } catch (error) {
    saw.refused = error instanceof DoorError ? [error.status, error.code] : String(error)
  }

  saw.nodes = (await door.postNodes(given.id, given.nodes.map(blockOf))).map((one) => one.status)
  const [one, other, ...more] = given.publishes.map((blocks) => blocks.map(blockOf))
  saw.publish = await door.publish(one)
  const before = await events(door, given.id, 2)
  saw.before = before.map((event) => event.event)
  saw.waits = (await door.publish(other.slice(0, 1))).waits_for
  saw.publish_again = (await door.publish(other)).is_in_order
  saw.behind = (await events(door, given.id, 2, before[1].id)).map((event) => [event.event, event.data.publish.cid])
  saw.source = globalThis.EventSource === undefined ? null : (await heard(door, given.id, 'tip')).publish.cid
  try {
    await door.publish(more[0])
  } catch (error) {
    saw.stolen = error instanceof DoorError ? [error.status, error.code] : String(error)
  }

  const { order, publishes } = await door.published(given.id)
  saw.order = order.order
  saw.tip = order.tip
  saw.is_total_order = order instanceof TotalOrder
  const car = await door.car(publishes.get(order.tip).link)
  saw.blocks = car.blocks.map((block) => block.cid.text)
  const answer = await fetch(`${given.door}/ipfs/${given.raw}`, { headers: { Range: 'bytes=10-19' } })
  saw.range = [answer.status, answer.headers.get('Content-Range'), (await answer.arrayBuffer()).byteLength]
  return saw
}

/** What a page of an origin that is not listed sees. */
export async function shut_out (client, given) {
  const saw = {}
  const door = new client.Door(given.door)
  for (const [name, path, init] of [
    ['read', `/ipfs/${given.raw}?format=raw`, {}],
    ['put', `/shards/${given.shard_cid}?space=${given.id}`, { method: 'PUT', body: bytesOf(given.shard) }],
    ['listed_header', '/openapi.json', { headers: { 'Last-Event-ID': '-.-.-' } }]
  ]) {
    try {
      saw[name] = (await door.ask(path, init)).status
    } catch (error) {
      saw[name] = error.name
    }
  }
  return saw
}

export async function run (client, given) {
  try {
    return await { trial, shut_out }[given.does](client, given)
  } catch (error) {
    return { error: String(error?.stack ?? error) }
  }
}
