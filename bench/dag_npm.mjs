// Rates of the JavaScript libraries of IPLD and UCAN: one JSON object in, one out. Bytes are hex.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import * as dagCbor from '@ipld/dag-cbor'
import { CarWriter } from '@ipld/car'
import { CarBufferReader } from '@ipld/car/buffer-reader'
import * as UCAN from '@ipld/dag-ucan'
import { CID } from 'multiformats/cid'
import * as Digest from 'multiformats/hashes/digest'
import { sha256 } from 'multiformats/hashes/sha2'
import { Verifier } from '@ucanto/principal'

const bytes = (text) => new Uint8Array(Buffer.from(text, 'hex'))
const cidOf = (data) => CID.createV1(0x71, Digest.create(0x12, createHash('sha256').update(data).digest()))

const rateOf = (action, count) => {
  const started = process.hrtime.bigint()
  for (let at = 0; at < count; at++) action(at)
  return count / (Number(process.hrtime.bigint() - started) / 1e9)
}

const operations = {
  async node ({ blocks, count }) {
    const all = blocks.map(bytes)
    const decode = (at) => dagCbor.decode(all[at % all.length])
    const check = (at) => {
      const data = all[at % all.length]
      const again = dagCbor.encode(dagCbor.decode(data))
      if (Buffer.compare(again, data) !== 0) throw new Error('not canonical')
      return cidOf(data)
    }
    rateOf(check, count >> 2)
    return { decode: rateOf(decode, count), check: rateOf(check, count) }
  },
  async ucan ({ bytes: text, count }) {
    const data = bytes(text)
    const verifier = Verifier.parse(UCAN.decode(data).issuer.did())
    const started = process.hrtime.bigint()
    for (let at = 0; at < count; at++) {
      if (!await UCAN.verifySignature(UCAN.decode(data), verifier)) throw new Error('a bad signature')
    }
    return { verify: count / (Number(process.hrtime.bigint() - started) / 1e9) }
  },
  async car ({ size, blocks: count }) {
    const blocks = []
    for (let at = 0; at < count; at++) {
      const data = createHash('shake256', { outputLength: size }).update(String(at)).digest()
      blocks.push({ cid: CID.createV1(0x55, await sha256.digest(data)), bytes: new Uint8Array(data) })
    }
    const { writer, out } = CarWriter.create([])
    const parts = (async () => { const all = []; for await (const part of out) all.push(part); return Buffer.concat(all) })()
    for (const block of blocks) await writer.put(block)
    await writer.close()
    const file = new Uint8Array(await parts)
    const started = process.hrtime.bigint()
    for (const { cid, bytes: data } of CarBufferReader.fromBytes(file).blocks()) {
      const digest = createHash('sha256').update(data).digest()
      if (Buffer.compare(digest, cid.multihash.digest) !== 0) throw new Error('another block')
    }
    return { megabytes: file.length / (Number(process.hrtime.bigint() - started) / 1e3) }
  }
}

const request = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify(await operations[request.do](request)))
