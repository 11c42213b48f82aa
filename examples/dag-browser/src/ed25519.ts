// Ed25519 by libsodium's rule of acceptance (R21): a verdict must not depend on whose arithmetic is at hand.
// What libraries differ in is decided here: S below the group order, no point of small order, a canonical key.
// The rest is the browser's, or, where it has no Ed25519, the arithmetic below: slower, and it has no secrets.
import { type Bytes, concat, toHex } from './bytes.js'
import { sha512 } from './hashes.js'

const P = (1n << 255n) - 19n
const ORDER = (1n << 252n) + 27742317777372353535851937790883648493n
const D = modulo(-121665n * inverse(121666n))
const ROOT_OF_MINUS_ONE = power(2n, (P - 1n) / 4n)
const SIGN = 1n << 255n
/** The y of points whose order divides eight, in every encoding. */
const SMALL_Y = new Set([
  0n, 1n, P - 1n, P, P + 1n,
  2707385501144840649318225287225658788936804267575313519463743609750303021n,
  55188659117513257062467267217118295137698188065244968500265048394206261417927n
])

/** Extended coordinates: x = X/Z, y = Y/Z, T = XY/Z. */
type Point = readonly [bigint, bigint, bigint, bigint]
const NEUTRAL: Point = [0n, 1n, 1n, 0n]
const BASE: Point = decompress(modulo(4n * inverse(5n)))!

export type Verifier = (key: Bytes, signature: Bytes, message: Bytes) => Promise<boolean>

/** Whether a key of 32 bytes signed a message. */
export async function verify (key: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  browserHasIt ??= hasEd25519()
  return await (await browserHasIt ? verifyByBrowser : verifyByArithmetic)(key, signature, message)
}

let browserHasIt: Promise<boolean> | undefined

export async function hasEd25519 (): Promise<boolean> {
  try {
    await crypto.subtle.importKey('raw', compress(BASE), 'Ed25519', false, ['verify'])
    return true
  } catch {
    return false
  }
}

export async function verifyByBrowser (key: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  if (!isAcceptable(key, signature)) return false
  try {
    const imported = await crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify'])
    return await crypto.subtle.verify('Ed25519', imported, signature, message)
  } catch {
    return false
  }
}

export async function verifyByArithmetic (key: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  if (!isAcceptable(key, signature)) return false
  const point = decompress(littleEndian(key))
  if (point === undefined) return false
  const start = signature.slice(0, 32)
  const hash = littleEndian(await sha512(concat(start, key, message))) % ORDER
  const [x, y, z, t] = point
  const minus: Point = [modulo(-x), y, z, modulo(-t)]
  const found = add(multiply(littleEndian(signature.subarray(32)), BASE), multiply(hash, minus))
  return toHex(compress(found)) === toHex(start)
}

function isAcceptable (key: Bytes, signature: Bytes): boolean {
  if (key.length !== 32 || signature.length !== 64) return false
  const [keyY, startY] = [littleEndian(key), littleEndian(signature.subarray(0, 32))].map((number) => number % SIGN)
  return littleEndian(signature.subarray(32)) < ORDER && keyY! < P && !SMALL_Y.has(keyY!) && !SMALL_Y.has(startY!)
}

function littleEndian (data: Bytes): bigint {
  return BigInt(`0x${toHex(data.slice().reverse())}`)
}

function modulo (number: bigint): bigint {
  const rest = number % P
  return rest < 0n ? rest + P : rest
}

function power (base: bigint, exponent: bigint): bigint {
  let found = 1n
  for (let factor = base; exponent > 0n; exponent >>= 1n, factor = modulo(factor * factor)) {
    if (exponent & 1n) found = modulo(found * factor)
  }
  return found
}

function inverse (number: bigint): bigint {
  return power(modulo(number), P - 2n)
}

/** The point of an encoding: y, and the sign of x in the highest bit. */
function decompress (encoded: bigint): Point | undefined {
  const y = encoded % SIGN
  const squared = modulo((y * y - 1n) * inverse(D * y * y + 1n))
  let x = power(squared, (P + 3n) / 8n)
  if (modulo(x * x) !== squared) x = modulo(x * ROOT_OF_MINUS_ONE)
  if (modulo(x * x) !== squared) return undefined
  if ((x & 1n) !== encoded / SIGN) x = modulo(-x)
  return [x, y, 1n, modulo(x * y)]
}

function compress ([x, y, z]: Point): Bytes {
  const scale = inverse(z)
  let number = modulo(y * scale) | ((modulo(x * scale) & 1n) * SIGN)
  const data = new Uint8Array(32)
  for (let place = 0; place < 32; place++, number >>= 8n) data[place] = Number(number & 0xffn)
  return data
}

function add ([x1, y1, z1, t1]: Point, [x2, y2, z2, t2]: Point): Point {
  const [a, b] = [modulo((y1 - x1) * (y2 - x2)), modulo((y1 + x1) * (y2 + x2))]
  const [c, d] = [modulo(2n * D * t1 * t2), modulo(2n * z1 * z2)]
  const [e, f, g, h] = [b - a, d - c, d + c, b + a]
  return [modulo(e * f), modulo(g * h), modulo(f * g), modulo(e * h)]
}

function multiply (times: bigint, point: Point): Point {
  let found = NEUTRAL
  for (; times > 0n; times >>= 1n, point = add(point, point)) {
    if (times & 1n) found = add(found, point)
  }
  return found
}
