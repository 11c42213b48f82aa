// CIDs in bytes and as text (1.1, R1). They are ordered by their text, so texts stand for them everywhere.
import { type Bytes, concat, DagError, equal, fromBase32, fromBase58, readVarint, refuse, startsWith, toBase32, toBase58, writeVarint } from './bytes.js'
import { digestOf, IDENTITY, SHA2_256, sha256 } from './hashes.js'

export const RAW = 0x55
export const DAG_PB = 0x70
export const DAG_CBOR = 0x71
export const CAR = 0x0202

const V0_START = [0x12, 0x20]
const V0_SIZE = 34

export class Cid {
  #text: string | undefined

  constructor (
    readonly raw: Bytes,
    readonly version: 0 | 1,
    readonly codec: number,
    readonly hash: number,
    readonly digest: Bytes
  ) {}

  /** The CIDv1 of a block by sha2-256. */
  static async of (codec: number, data: Bytes): Promise<Cid> {
    const start = concat(writeVarint(1), writeVarint(codec), Uint8Array.of(SHA2_256, 32))
    return Cid.fromBytes(concat(start, await sha256(data)))
  }

  /** The CID that bytes are, whole, with nothing behind it. */
  static fromBytes (raw: Bytes): Cid {
    const [cid, end] = Cid.read(raw, 0)
    if (end !== raw.length) refuse('bad_cid', 'bytes follow the CID')
    return cid
  }

  /** The CID that begins at a place, and where it ends. */
  static read (data: Bytes, at: number): [Cid, number] {
    if (data[at] === V0_START[0] && data[at + 1] === V0_START[1]) {
      const raw = data.slice(at, at + V0_SIZE)
      if (raw.length !== V0_SIZE) refuse('bad_cid', 'the bytes end in a CID')
      return [new Cid(raw, 0, DAG_PB, SHA2_256, raw.subarray(2)), at + V0_SIZE]
    }
    const [[codec, hash, length], start] = numbers(data, at)
    const end = start + length
    if (end > data.length) refuse('bad_cid', 'the bytes end in a CID')
    const raw = data.slice(at, end)
    return [new Cid(raw, 1, codec, hash, raw.subarray(start - at)), end]
  }

  /** The CID that a text spells in the one way that R1 allows. */
  static parse (text: string): Cid {
    const raw = text.startsWith('b') ? fromBase32(text.slice(1)) : v0Bytes(text)
    const isV0 = raw !== undefined && startsWith(raw, V0_START)
    if (raw === undefined || isV0 === text.startsWith('b')) refuse('bad_cid', 'not the text of a CID')
    return Cid.fromBytes(raw)
  }

  get text (): string {
    this.#text ??= this.version === 0 ? toBase58(this.raw) : `b${toBase32(this.raw)}`
    return this.#text
  }

  get isIdentity (): boolean {
    return this.hash === IDENTITY
  }

  /** Whether it may be a node or a UCAN: CIDv1, by a whole sha2-256. */
  isSha256 (...codecs: number[]): boolean {
    return this.version === 1 && codecs.includes(this.codec) && this.hash === SHA2_256 && this.digest.length === 32
  }

  /** Raises unless these bytes are the block of this CID. A digest cut short proves nothing. */
  async check (data: Bytes): Promise<void> {
    const found = await digestOf(this.hash, data)
    if (found === undefined) refuse('hash_unsupported', `the hash function ${this.hash} is not checked here`)
    if (!equal(found, this.digest)) refuse('hash', `the block is not that of ${this.text.slice(0, 100)}`)
  }
}

function numbers (data: Bytes, at: number): [[number, number, number], number] {
  try {
    const [version, first] = readVarint(data, at)
    if (version !== 1) refuse('bad_cid', `no CID has version ${version}`)
    const [codec, second] = readVarint(data, first)
    const [hash, third] = readVarint(data, second)
    const [length, start] = readVarint(data, third)
    return [[codec, hash, length], start]
  } catch (error) {
    if (error instanceof DagError) refuse('bad_cid', `not a CID: ${error.message}`)
    throw error
  }
}

function v0Bytes (text: string): Bytes | undefined {
  return text.startsWith('Qm') && text.length === 46 ? fromBase58(text, V0_SIZE) : undefined
}

/** Raises unless CIDs strictly ascend by text: the first pair at fault decides. */
export function checkAscending (links: readonly Cid[]): void {
  links.slice(1).forEach((after, place) => {
    const before = links[place]!
    if (after.text === before.text) refuse('duplicate', `${after.text} is named twice`)
    if (after.text < before.text) refuse('unsorted', `${after.text} stands behind ${before.text}`)
  })
}
