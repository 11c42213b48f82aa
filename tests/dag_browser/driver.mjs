// The client for browsers behind one JSON object a line, in the words of `culm conform`. Run with the folder of its modules.
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const folder = `${pathToFileURL(process.argv[2]).href}/`
const { DagError, fromHex, toHex } = await import(`${folder}bytes.js`)
const { Cid } = await import(`${folder}cid.js`)
const { decodeDagCbor, encodeDagCbor } = await import(`${folder}dag_cbor.js`)
const { openShard, readCar } = await import(`${folder}car.js`)
const { decodeNode } = await import(`${folder}node.js`)
const { TotalOrder } = await import(`${folder}order.js`)
const { publishedOf } = await import(`${folder}publishes.js`)
const { authorise, orRefusal } = await import(`${folder}chain.js`)
const ed25519 = await import(`${folder}ed25519.js`)
const { checkSignature, didFromText, ucanOf, ucanOfText } = await import(`${folder}ucan.js`)

const blockOf = ({ cid, bytes }) => ({ cid: Cid.parse(cid), bytes: fromHex(bytes) })
const policyOf = ({ policy = 'bound', services = [], leeway = 0 }) => ({
  policy, services: services.map(didFromText), leeway: BigInt(leeway)
})

const operations = {
  'cid.parse' ({ cid, bytes }) {
    const found = cid === undefined ? Cid.fromBytes(fromHex(bytes)) : Cid.parse(cid)
    return { bytes: toHex(found.raw), cid: found.text, codec: found.codec, digest: toHex(found.digest) }
  },
  async 'cid.check' (block) {
    const { cid, bytes } = blockOf(block)
    await cid.check(bytes)
    return {}
  },
  'cbor.again' ({ bytes }) {
    return { bytes: toHex(encodeDagCbor(decodeDagCbor(fromHex(bytes)))) }
  },
  async 'car.decode' ({ bytes }) {
    const { roots, blocks } = await readCar(fromHex(bytes))
    return { roots: roots.map((one) => one.text), blocks: blocks.map((one) => ({ cid: one.cid.text, bytes: toHex(one.bytes) })) }
  },
  async 'shard.open' (block) {
    const { cid, bytes } = blockOf(block)
    return { blocks: [...await openShard(cid, bytes)].map(([text, data]) => [text, toHex(data)]) }
  },
  async 'replica.decode' ({ bytes }) {
    const { cid, change } = await decodeNode(fromHex(bytes))
    return { cid: cid.text, type: change.type }
  },
  async 'ucan.verify' ({ leaf, jwt, blocks = [], subject, publish, now, ...settings }) {
    const found = new Map(blocks.map(blockOf).map((one) => [one.cid.text, one]))
    const ucans = new Map()
    for (const [text, { cid, bytes }] of found) ucans.set(text, await orRefusal(ucanOf(cid, bytes)))
    const proof = jwt === undefined ? ucans.get(leaf) : await checkSignature(await ucanOfText(jwt))
    if (proof instanceof DagError) throw proof
    const fields = new Map(Object.entries(publish).filter(([, text]) => text !== null).map(([name, text]) => [name, Cid.parse(text)]))
    authorise(proof, { id: didFromText(subject), fields }, ucans, BigInt(now), policyOf(settings))
    return { valid: true }
  },
  'order.of' ({ ops }) {
    const order = new TotalOrder()
    const changes = ops.map(([cid, prior]) => {
      const { start, changed } = order.add(cid, prior ?? undefined)
      return { tip: order.tip ?? null, from: start, changed, held: order.held }
    })
    return { changes, heads: order.heads, order: order.order, tip: order.tip ?? null, key: order.tipKey, held: order.held }
  },
  async 'published' ({ id, nodes, ucans, receipts, ...settings }) {
    const times = receipts && ((cid) => (receipts[cid] ?? []).map(BigInt))
    const found = await publishedOf(fromHex(id), nodes.map(blockOf), ucans.map(blockOf), policyOf(settings), times)
    return {
      order: found.order.order,
      tip: found.order.tip ?? null,
      refused: Object.fromEntries([...found.refused].map(([cid, error]) => [cid, error.code])),
      revoked: [...found.revoked].sort(),
      waiting: [...found.waiting.keys()].sort()
    }
  },
  async 'ed25519' ({ key, signature, message }) {
    const given = [key, signature, message].map(fromHex)
    return {
      browser: await ed25519.hasEd25519() ? await ed25519.verifyByBrowser(...given) : null,
      arithmetic: await ed25519.verifyByArithmetic(...given)
    }
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line)
  let answer
  try {
    answer = { ok: await operations[request.do](request) }
  } catch (error) {
    answer = error instanceof DagError ? { refused: error.code } : { error: String(error?.stack ?? error) }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
