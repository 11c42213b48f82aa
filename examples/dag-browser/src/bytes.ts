// Bytes and their spellings, and the one error of this client.

export type Bytes = Uint8Array<ArrayBuffer>

/** Why something is refused. The code is that of Culm, without `dag.`. */
export class DagError extends Error {
  constructor (readonly code: string, message: string) {
    super(message)
  }
}

export function refuse (code: string, message: string): never {
  throw new DagError(code, message)
}

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'
const BASE58 = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const BASE64URL = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'

export function toHex (data: Bytes): string {
  return [...data].map((byte) => byte.toString(16).padStart(2, '0')).join('')
}

export function fromHex (text: string): Bytes {
  if (!/^([0-9a-f]{2})*$/i.test(text)) throw new TypeError('not hex')
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16))
}

export function utf8 (text: string): Bytes {
  return new TextEncoder().encode(text)
}

/** The text that bytes are; undefined where they are no UTF-8. */
export function fromUtf8 (data: Bytes): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(data)
  } catch {
    return undefined
  }
}

export function concat (...parts: Bytes[]): Bytes {
  const all = new Uint8Array(parts.reduce((size, part) => size + part.length, 0))
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.length
  }
  return all
}

export function startsWith (data: Bytes, start: readonly number[]): boolean {
  return start.every((byte, place) => data[place] === byte)
}

export function equal (one: Bytes, other: Bytes): boolean {
  return one.length === other.length && one.every((byte, place) => byte === other[place])
}

/** Spells bytes with the letters of an alphabet of 2^width, without padding. */
function spell (data: Bytes, alphabet: string, width: number): string {
  let text = ''
  let bits = 0
  let held = 0
  for (const byte of data) {
    held = (held << 8) | byte
    for (bits += 8; bits >= width; bits -= width) text += alphabet[(held >> (bits - width)) & (alphabet.length - 1)]
    held &= (1 << bits) - 1
  }
  return bits ? text + alphabet[held << (width - bits)] : text
}

/** The bytes that exactly this text spells; undefined of any other text, so of unused bits and of padding. */
function unspell (text: string, alphabet: string, width: number): Bytes | undefined {
  const data = new Uint8Array((text.length * width) >> 3)
  let bits = 0
  let held = 0
  let at = 0
  for (const letter of text) {
    const digit = alphabet.indexOf(letter)
    if (digit < 0) return undefined
    held = (held << width) | digit
    bits += width
    if (bits >= 8) {
      bits -= 8
      data[at++] = held >> bits
      held &= (1 << bits) - 1
    }
  }
  return bits < width && held === 0 ? data : undefined
}

export const toBase32 = (data: Bytes): string => spell(data, BASE32, 5)
export const fromBase32 = (text: string): Bytes | undefined => unspell(text, BASE32, 5)
export const toBase64Url = (data: Bytes): string => spell(data, BASE64URL, 6)
export const fromBase64Url = (text: string): Bytes | undefined => unspell(text, BASE64URL, 6)

export function toBase64 (data: Bytes): string {
  return toBase64Url(data).replaceAll('-', '+').replaceAll('_', '/')
}

export function fromBase64 (text: string): Bytes | undefined {
  if (/[-_]/.test(text)) return undefined
  return fromBase64Url(text.replaceAll('+', '-').replaceAll('/', '_'))
}

/** Bitcoin's base58: for short bytes alone. */
export function toBase58 (data: Bytes): string {
  let number = BigInt(`0x0${toHex(data)}`)
  let text = ''
  for (; number > 0n; number /= 58n) text = BASE58[Number(number % 58n)] + text
  const first = data.findIndex((byte) => byte !== 0)
  return '1'.repeat(first < 0 ? data.length : first) + text
}

/** The `size` bytes that exactly this text spells. */
export function fromBase58 (text: string, size: number): Bytes | undefined {
  if (text.length < size || text.length > 2 * size) return undefined
  let number = 0n
  for (const letter of text) {
    const digit = BASE58.indexOf(letter)
    if (digit < 0) return undefined
    number = number * 58n + BigInt(digit)
  }
  const hex = number.toString(16).padStart(2 * size, '0')
  if (hex.length > 2 * size) return undefined
  const data = fromHex(hex)
  return toBase58(data) === text ? data : undefined
}

export const VARINT_BYTES = 9

/** The unsigned varint at a place, and where it ends: shortest form, at most nine bytes. */
export function readVarint (data: Bytes, at: number): [number, number] {
  // Beyond 2^53 the number is not exact, but no length or code that is used is there.
  let number = 0
  let weight = 1
  for (let place = at; place < Math.min(data.length, at + VARINT_BYTES); place++) {
    const byte = data[place]!
    number += (byte & 0x7f) * weight
    weight *= 128
    if (byte < 0x80) {
      if (byte === 0 && place > at) refuse('varint', `the varint at byte ${at} is not the shortest form`)
      return [number, place + 1]
    }
  }
  return refuse('varint', `the varint at byte ${at} does not end`)
}

export function writeVarint (number: number): Bytes {
  const out: number[] = []
  for (; number > 0x7f; number = Math.floor(number / 128)) out.push((number % 128) | 0x80)
  return Uint8Array.from([...out, number])
}
