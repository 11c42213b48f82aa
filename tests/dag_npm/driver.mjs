// The JavaScript libraries of IPLD and UCAN behind one JSON object a line. Bytes are hex, CIDs text.
import { createInterface } from 'node:readline'
import { createHash } from 'node:crypto'
import * as dagCbor from '@ipld/dag-cbor'
import { CarReader, CarWriter } from '@ipld/car'
import * as UCAN from '@ipld/dag-ucan'
import { CID } from 'multiformats/cid'
import * as Digest from 'multiformats/hashes/digest'
import { ed25519, Verifier } from '@ucanto/principal'
import { access, capability, DID, Link, Schema } from '@ucanto/validator'
import * as Core from '@ucanto/core'
import { importer } from 'ipfs-unixfs-importer'
import { fixedSize } from 'ipfs-unixfs-importer/chunker'
import { balanced } from 'ipfs-unixfs-importer/layout'
import { exporter } from 'ipfs-unixfs-exporter'

const hex = (bytes) => Buffer.from(bytes).toString('hex')
const bytes = (text) => new Uint8Array(Buffer.from(text, 'hex'))
const cidOf = (data) => CID.createV1(0x71, Digest.create(0x12, createHash('sha256').update(data).digest()))

// What capabilities and facts hold, from DAG-JSON as far as it has links and bytes.
const fromJson = (value) => {
  if (Array.isArray(value)) return value.map(fromJson)
  if (value === null || typeof value !== 'object') return value
  if (typeof value['/'] === 'string') return CID.parse(value['/'])
  if (value['/']?.bytes !== undefined) return new Uint8Array(Buffer.from(value['/'].bytes, 'base64'))
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, fromJson(item)]))
}

class Blocks {
  constructor (blocks = []) { this.map = new Map(blocks.map(({ cid, bytes: data }) => [cid, bytes(data)])) }
  async put (cid, data) { this.map.set(cid.toString(), data); return cid }
  async * get (cid) {
    const found = this.map.get(cid.toString())
    if (!found) throw new Error(`no block ${cid}`)
    yield found
  }
  async has (cid) { return this.map.has(cid.toString()) }
  list () { return [...this.map].map(([cid, data]) => ({ cid, bytes: hex(data) })) }
}

const publish = capability({
  can: 'dag/publish',
  with: DID,
  nb: Schema.struct({ link: Link, origin: Link, prior: Link.optional(), shard: Link.optional() }),
  derives: () => ({ ok: {} })
})

const operations = {
  async 'cbor.decode' ({ bytes: text }) {
    const data = bytes(text)
    const value = dagCbor.decode(data)
    return { again: hex(dagCbor.encode(value)), cid: cidOf(data).toString() }
  },
  async 'car.decode' ({ bytes: text }) {
    const reader = await CarReader.fromBytes(bytes(text))
    const blocks = []
    for await (const { cid, bytes: data } of reader.blocks()) blocks.push({ cid: cid.toString(), bytes: hex(data) })
    return { roots: (await reader.getRoots()).map(String), blocks }
  },
  async 'car.encode' ({ roots, blocks }) {
    const { writer, out } = CarWriter.create(roots.map((cid) => CID.parse(cid)))
    const parts = (async () => { const all = []; for await (const part of out) all.push(part); return Buffer.concat(all) })()
    for (const { cid, bytes: data } of blocks) await writer.put({ cid: CID.parse(cid), bytes: bytes(data) })
    await writer.close()
    return { bytes: hex(await parts) }
  },
  async 'ucan.issue' ({ private_key: seed, audience, capabilities, expires, proofs, not_before: notBefore, nonce, facts }) {
    const issuer = await ed25519.derive(bytes(seed))
    const ucan = await UCAN.issue({
      issuer,
      audience: Verifier.parse(audience),
      capabilities: capabilities.map(fromJson),
      expiration: expires ?? Infinity,
      notBefore: notBefore ?? undefined,
      nonce: nonce ?? undefined,
      facts: (facts ?? []).map(fromJson),
      proofs: (proofs ?? []).map((cid) => CID.parse(cid))
    })
    const block = await UCAN.write(ucan)
    return { bytes: hex(block.bytes), cid: block.cid.toString(), jwt: UCAN.format(ucan) }
  },
  async 'ucan.verify' ({ bytes: text, jwt }) {
    const ucan = jwt === undefined ? UCAN.decode(bytes(text)) : UCAN.parse(jwt)
    return { valid: Boolean(await UCAN.verifySignature(ucan, Verifier.parse(ucan.issuer.did()))) }
  },
  async access ({ leaf, blocks, authority }) {
    const map = new Map(blocks.map(({ cid, bytes: data }) => [cid, { cid: CID.parse(cid), bytes: bytes(data) }]))
    const invocation = Core.Delegation.view({ root: CID.parse(leaf), blocks: map })
    const found = await access(invocation, {
      authority: Verifier.parse(authority), capability: publish, principal: Verifier, validateAuthorization: () => ({ ok: {} })
    })
    return { valid: Boolean(found.ok), error: found.error?.message }
  },
  async 'unixfs.import' ({ files, chunk_size: chunkSize = 262144, width = 174, sharded = false }) {
    const store = new Blocks()
    const source = files.map(([path, content]) => ({ path, content: bytes(content) }))
    let root
    for await (const one of importer(source, store, {
      cidVersion: 1, rawLeaves: true, wrapWithDirectory: true, reduceSingleLeafToSelf: true,
      chunker: fixedSize({ chunkSize }), layout: balanced({ maxChildrenPerNode: width }),
      shardSplitThresholdBytes: sharded ? 0 : 262144
    })) root = one.cid
    return { root: root.toString(), blocks: store.list() }
  },
  async 'unixfs.read' ({ path, blocks }) {
    const found = await exporter(path, new Blocks(blocks))
    if (found.type === 'directory') {
      const entries = []
      for await (const { name, cid } of (found.entries?.() ?? found.content())) entries.push([name, cid.toString()])
      return { kind: 'directory', cid: found.cid.toString(), entries }
    }
    const parts = []
    for await (const part of found.content()) parts.push(part)
    return { kind: found.type, cid: found.cid.toString(), bytes: Buffer.concat(parts).toString('hex') }
  }
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line)
  let answer
  try {
    answer = { ok: await operations[request.do](request) }
  } catch (error) {
    answer = { error: String(error?.message ?? error) }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
