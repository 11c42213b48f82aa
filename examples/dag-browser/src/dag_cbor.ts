// Strict DAG-CBOR (1.2, R2): one encoding a value, and a decoder that refuses every other one.
import { type Bytes, concat, fromUtf8, refuse, utf8 } from './bytes.js'
import { Cid } from './cid.js'

/** Integers are bigint, so that no float can pose as one. */
export type Value = null | boolean | bigint | number | string | Bytes | Cid | Value[] | DagMap
export type DagMap = Map<string, Value>

const NESTING = 128
const [UNSIGNED, NEGATIVE, BYTES, TEXT, LIST, MAP, TAG] = [0, 1, 2, 3, 4, 5, 6]
const LINK_TAG = 42n
const LEAST = [24n, 1n << 8n, 1n << 16n, 1n << 32n] as const

/** The one value that bytes encode. What is refused is the first fault in the order of the bytes. */
export function decodeDagCbor (data: Bytes): Value {
  const reader = new Reader(data)
  const value = reader.item(NESTING)
  if (reader.at !== data.length) wrong('bytes follow the value')
  return value
}

function wrong (message: string): never {
  return refuse('non_canonical', message)
}

class Reader {
  at = 0
  readonly #view: DataView

  constructor (readonly data: Bytes) {
    this.#view = new DataView(data.buffer, data.byteOffset, data.byteLength)
  }

  item (levels: number): Value {
    if (this.data[this.at]! >= 0xe0) return this.#simple()
    const [major, argument] = this.#head()
    if (major === UNSIGNED) return argument
    if (major === NEGATIVE) return -1n - argument
    if (major === TAG) {
      if (argument !== LINK_TAG) wrong('a tag other than 42')
      return this.#link()
    }
    const size = this.#size(argument)
    if (major === BYTES) return this.#take(size).slice()
    if (major === TEXT) return this.#text(size)
    if (levels === 0) wrong(`lists and maps are nested more than ${NESTING} deep`)
    return major === LIST ? this.#list(size, levels) : this.#map(size, levels)
  }

  /** Major type and argument of a head in its shortest form. */
  #head (): [number, bigint] {
    const first = this.data[this.at]
    if (first === undefined) wrong('the bytes end where an item must begin')
    const short = first & 31
    if (short > 27) wrong('a head that is reserved or of indefinite length')
    this.at += 1
    if (short < 24) return [first >> 5, BigInt(short)]
    const bytes = this.#take(1 << (short - 24))
    const argument = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n)
    if (argument < LEAST[short - 24]!) wrong('a head that is not the shortest form')
    return [first >> 5, argument]
  }

  #size (argument: bigint): number {
    if (argument > BigInt(this.data.length - this.at)) wrong('a length is larger than what follows')
    return Number(argument)
  }

  #take (size: number): Bytes {
    if (size > this.data.length - this.at) wrong('the bytes end too early')
    this.at += size
    return this.data.subarray(this.at - size, this.at)
  }

  #text (size: number): string {
    return fromUtf8(this.#take(size)) ?? wrong('a text is not UTF-8')
  }

  #simple (): Value {
    const first = this.data[this.at]
    this.at += 1
    if (first === 0xf4 || first === 0xf5) return first === 0xf5
    if (first === 0xf6) return null
    if (first !== 0xfb || this.at + 8 > this.data.length) wrong('neither false, true, null nor a 64-bit float')
    const value = this.#view.getFloat64(this.at)
    if (!Number.isFinite(value)) wrong('a float that is no number')
    this.at += 8
    return value
  }

  #link (): Cid {
    if (this.data[this.at]! >= 0xe0) refuse('bad_cid', 'a link that is no byte string')
    const [major, argument] = this.#head()
    if (major !== BYTES) refuse('bad_cid', 'a link that is no byte string')
    const bytes = this.#take(this.#size(argument))
    if (bytes[0] !== 0) refuse('bad_cid', 'a link that does not begin with a zero')
    return Cid.fromBytes(bytes.subarray(1))
  }

  #list (count: number, levels: number): Value[] {
    const values: Value[] = []
    for (let place = 0; place < count; place++) values.push(this.item(levels - 1))
    return values
  }

  #map (count: number, levels: number): DagMap {
    if (2 * count > this.data.length - this.at) wrong('a map announces more entries than bytes follow')
    const values: DagMap = new Map()
    let before: Bytes | undefined
    for (let place = 0; place < count; place++) {
      const [major, argument] = this.#head()
      if (major !== TEXT) wrong('a key that is no text')
      const key = this.#take(this.#size(argument))
      if (before !== undefined && compareKeys(before, key) >= 0) wrong('a key is repeated or not in its order')
      before = key
      const name = fromUtf8(key) ?? wrong('a key is not UTF-8')
      values.set(name, this.item(levels - 1))
    }
    return values
  }
}

/** Shorter keys first, then bytewise. */
function compareKeys (one: Bytes, other: Bytes): number {
  if (one.length !== other.length) return one.length - other.length
  const place = one.findIndex((byte, at) => byte !== other[at])
  return place < 0 ? 0 : one[place]! - other[place]!
}

/** The one encoding of a value. */
export function encodeDagCbor (value: Value): Bytes {
  const parts: Bytes[] = []
  write(parts, value)
  return concat(...parts)
}

function head (major: number, argument: bigint): Bytes {
  if (argument < 24n) return Uint8Array.of((major << 5) | Number(argument))
  const width = LEAST.findLastIndex((least) => argument >= least)
  const bytes = Array.from({ length: 1 << width }, (_, place) => Number((argument >> BigInt(8 * ((1 << width) - 1 - place))) & 0xffn))
  return Uint8Array.of((major << 5) | (24 + width), ...bytes)
}

function write (out: Bytes[], value: Value): void {
  if (value === null || typeof value === 'boolean') {
    out.push(Uint8Array.of(value === null ? 0xf6 : value ? 0xf5 : 0xf4))
  } else if (typeof value === 'bigint') {
    out.push(value >= 0n ? head(UNSIGNED!, value) : head(NEGATIVE!, -1n - value))
  } else if (typeof value === 'number') {
    const view = new DataView(new ArrayBuffer(9))
    view.setUint8(0, 0xfb)
    view.setFloat64(1, value)
    out.push(new Uint8Array(view.buffer))
  } else if (typeof value === 'string') {
    const data = utf8(value)
    out.push(head(TEXT!, BigInt(data.length)), data)
  } else if (value instanceof Uint8Array) {
    out.push(head(BYTES!, BigInt(value.length)), value)
  } else if (value instanceof Cid) {
    out.push(head(TAG!, LINK_TAG), head(BYTES!, BigInt(value.raw.length + 1)), Uint8Array.of(0), value.raw)
  } else if (Array.isArray(value)) {
    out.push(head(LIST!, BigInt(value.length)))
    for (const item of value) write(out, item)
  } else {
    const entries = [...value].map(([key, item]) => [utf8(key), item] as const)
    entries.sort(([one], [other]) => compareKeys(one, other))
    out.push(head(MAP!, BigInt(entries.length)))
    for (const [key, item] of entries) {
      out.push(head(TEXT!, BigInt(key.length)), key)
      write(out, item)
    }
  }
}
