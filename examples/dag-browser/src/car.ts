// CARs of version 1, read strictly and every block proved (1.3, R3), and shards (R4, R5).
import { type Bytes, concat, DagError, readVarint, refuse, startsWith, VARINT_BYTES, writeVarint } from './bytes.js'
import { CAR, Cid, DAG_CBOR } from './cid.js'
import { decodeDagCbor, encodeDagCbor, type Value } from './dag_cbor.js'

export interface Block {
  cid: Cid
  bytes: Bytes
}

export interface Car {
  roots: Cid[]
  /** In the order of the file, repeats as well. */
  blocks: Block[]
}

const CAR_MAX = 134_217_728
const HEADER_MAX = 65_536
const ROOTS_MAX = 1_024
const BLOCK_MAX = 2_097_152
const SECTIONS_MAX = 1_000_000
const V2_PRAGMA = [0x0a, 0xa1, 0x67, 0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x02]

/** A whole file; its blocks are views into it. */
export async function readCar (data: Bytes): Promise<Car> {
  if (data.length > CAR_MAX) refuse('too_large', `a CAR over ${CAR_MAX} bytes`)
  const [roots, start] = readHeader(data)
  const blocks: Block[] = []
  for (let at = start; at < data.length;) {
    const [size, from] = readLength(data, at, 'car_section')
    if (size > 2 * BLOCK_MAX + 256) refuse('too_large', 'a section over the bound')
    if (from + size > data.length) refuse('car_section', 'the bytes end in a section')
    if (blocks.length === SECTIONS_MAX) refuse('too_large', 'too many sections')
    const section = data.subarray(from, from + size)
    const [cid, end] = Cid.read(section, 0)
    const bytes = section.subarray(end)
    if (bytes.length > BLOCK_MAX) refuse('too_large', `a block over ${BLOCK_MAX} bytes`)
    await cid.check(bytes)
    blocks.push({ cid, bytes })
    at = from + size
  }
  return { roots, blocks }
}

/** The blocks of a shard, once its bytes are known to be those of its CID. Of repeated ones the first counts. */
export async function openShard (cid: Cid, data: Bytes): Promise<Map<string, Bytes>> {
  await cid.check(data)
  if (cid.codec !== CAR && cid.codec !== DAG_CBOR) refuse('shard', 'a shard of this codec is never opened')
  const blocks = cid.codec === CAR ? (await readCar(data)).blocks : await blocksOfMap(data)
  return new Map(blocks.reverse().map((block) => [block.cid.text, block.bytes]))
}

/** A CAR of blocks, to be sent: whoever reads it checks them. */
export function writeCar (roots: Cid[], blocks: Iterable<Block>): Bytes {
  const header = encodeDagCbor(new Map<string, Value>([['roots', roots], ['version', 1n]]))
  const parts = [writeVarint(header.length), header]
  for (const { cid, bytes } of blocks) parts.push(writeVarint(cid.raw.length + bytes.length), cid.raw, bytes)
  return concat(...parts)
}

/** A length over 0 at a place, and where it ends. */
function readLength (data: Bytes, at: number, code: string): [number, number] {
  const bytes = data.subarray(at, at + VARINT_BYTES)
  if (bytes.length < VARINT_BYTES && bytes.every((byte) => byte >= 0x80)) refuse(code, 'the bytes end in a length')
  const [size, end] = readVarint(data, at)
  if (size === 0) refuse(code, 'a length of 0')
  return [size, end]
}

function readHeader (data: Bytes): [Cid[], number] {
  const [size, start] = readLength(data, 0, 'car_header')
  if (size > HEADER_MAX) refuse('too_large', `a header over ${HEADER_MAX} bytes`)
  if (startsWith(data, V2_PRAGMA)) refuse('car_v2', 'the pragma of CARv2')
  const end = start + size
  if (end > data.length) refuse('car_header', 'the bytes end in the header')
  const header = decodeHeader(data.subarray(start, end))
  if (!(header instanceof Map) || typeof header.get('version') !== 'bigint') refuse('car_header', 'no map with a version')
  if (header.get('version') !== 1n) refuse('car_version', 'another version than 1')
  const roots = header.get('roots')
  if (header.size !== 2 || !isLinks(roots)) refuse('car_header', 'no map of roots and version')
  if (roots.length > ROOTS_MAX) refuse('too_large', `more than ${ROOTS_MAX} roots`)
  return [roots, end]
}

function decodeHeader (data: Bytes): Value {
  try {
    return decodeDagCbor(data)
  } catch (error) {
    if (error instanceof DagError) refuse('car_header', `not canonical: ${error.message}`)
    throw error
  }
}

function isLinks (value: Value | undefined): value is Cid[] {
  return Array.isArray(value) && value.every((one) => one instanceof Cid)
}

async function blocksOfMap (data: Bytes): Promise<Block[]> {
  let value: Value
  try {
    value = decodeDagCbor(data)
  } catch {
    refuse('shard', 'a shard that is not canonical')
  }
  if (!(value instanceof Map)) refuse('shard', 'a shard that is no map')
  const elements = value.get('blocks')
  const known = value.has('roots') ? 2 : 1
  if (!Array.isArray(elements) || value.size !== known || !isLinks(value.get('roots') ?? [])) {
    refuse('shard', 'not a map of blocks and perhaps roots')
  }
  return await Promise.all(elements.map(async (element) => {
    const bytes = encodeDagCbor(element)
    return { cid: await Cid.of(DAG_CBOR, bytes), bytes }
  }))
}
