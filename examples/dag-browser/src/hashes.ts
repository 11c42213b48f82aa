// Hash functions that prove a block: those that every deployment checks unless its settings say otherwise.
import type { Bytes } from './bytes.js'

export const IDENTITY = 0x00
export const SHA2_256 = 0x12
export const SHA2_512 = 0x13
export const BLAKE2B_256 = 0xb220

export async function sha256 (data: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', data))
}

export async function sha512 (data: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-512', data))
}

/** The digest of a block by the function of a multihash code; undefined where it is not checked here. */
export async function digestOf (code: number, data: Bytes): Promise<Bytes | undefined> {
  switch (code) {
    case IDENTITY: return data
    case SHA2_256: return await sha256(data)
    case SHA2_512: return await sha512(data)
    case BLAKE2B_256: return blake2b256(data)
    default: return undefined
  }
}

const MASK = (1n << 64n) - 1n
const START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n
] as const
const SIGMA = [
  [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
  [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
  [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
  [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
  [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
  [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
  [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
  [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0]
] as const
const COLUMNS_AND_DIAGONALS = [
  [0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]
] as const
const BLOCK = 128

/** BLAKE2b of 32 bytes (RFC 7693). Browsers lack it; such blocks are rare, so it is plain rather than quick. */
export function blake2b256 (data: Bytes): Bytes {
  const state: bigint[] = [...START]
  state[0]! ^= 0x01010000n ^ 32n
  const blocks = Math.max(1, Math.ceil(data.length / BLOCK))
  for (let number = 0; number < blocks; number++) {
    const block = new Uint8Array(BLOCK)
    block.set(data.subarray(number * BLOCK, (number + 1) * BLOCK))
    const isLast = number === blocks - 1
    compress(state, block, BigInt(isLast ? data.length : (number + 1) * BLOCK), isLast)
  }
  const out = new DataView(new ArrayBuffer(32))
  for (let place = 0; place < 4; place++) out.setBigUint64(8 * place, state[place]!, true)
  return new Uint8Array(out.buffer)
}

function compress (state: bigint[], block: Bytes, counted: bigint, isLast: boolean): void {
  const view = new DataView(block.buffer)
  const words = Array.from({ length: 16 }, (_, place) => view.getBigUint64(8 * place, true))
  const v: bigint[] = [...state, ...START]
  v[12]! ^= counted
  if (isLast) v[14]! ^= MASK
  const turned = (word: bigint, bits: bigint): bigint => (word >> bits) | ((word << (64n - bits)) & MASK)
  for (let round = 0; round < 12; round++) {
    const order = SIGMA[round % 10]!
    COLUMNS_AND_DIAGONALS.forEach(([a, b, c, d], step) => {
      for (const [part, first, second] of [[0, 32n, 24n], [1, 16n, 63n]] as const) {
        v[a] = (v[a]! + v[b]! + words[order[2 * step + part]!]!) & MASK
        v[d] = turned(v[d]! ^ v[a]!, first)
        v[c] = (v[c]! + v[d]!) & MASK
        v[b] = turned(v[b]! ^ v[c]!, second)
      }
    })
  }
  for (let place = 0; place < 8; place++) state[place]! ^= v[place]! ^ v[place + 8]!
}
