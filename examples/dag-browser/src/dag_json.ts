// DAG-JSON: the text that a UCAN's signature is over, and the strict reading of JWTs (4.3).
import { fromBase64, refuse, toBase64 } from './bytes.js'
import { Cid } from './cid.js'
import type { DagMap, Value } from './dag_cbor.js'

export type Json = null | boolean | bigint | string | Json[] | Map<string, Json>

const NESTING = 128
// Of the text, where the maps that spell links and bytes are levels, too.
const TEXT_NESTING = 400
const INTEGER_MAX = (1n << 64n) - 1n
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y
const PLAIN = /[^"\\\u0000-\u001f]*/y
const ESCAPES: Record<string, string> = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** The canonical text: keys sorted bytewise at every level, no spaces, only the necessary escapes. */
export function encodeDagJson (value: Value): string {
  if (value instanceof Cid) return `{"/":${JSON.stringify(value.text)}}`
  if (value instanceof Uint8Array) return `{"/":{"bytes":"${toBase64(value)}"}}`
  if (Array.isArray(value)) return `[${value.map(encodeDagJson).join(',')}]`
  if (value instanceof Map) {
    const entries = [...value].sort(([one], [other]) => comparePoints(one, other))
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${encodeDagJson(item)}`).join(',')}}`
  }
  return typeof value === 'bigint' ? value.toString() : JSON.stringify(value)
}

/** Code points sort as their UTF-8 does; the units of UTF-16 do not. */
function comparePoints (one: string, other: string): number {
  const [left, right] = [[...one], [...other]]
  const place = left.findIndex((letter, at) => letter !== right[at])
  if (place < 0) return left.length - right.length
  return left[place]!.codePointAt(0)! - (right[place]?.codePointAt(0) ?? -1)
}

/** A JSON text without repeated keys, floats, -0 and half surrogate pairs; raises `jwt`. */
export function strictJson (text: string): Json {
  const reader = new JsonReader(text)
  const value = reader.item(TEXT_NESTING)
  reader.space()
  if (reader.at !== text.length) wrong('something follows the value')
  checkLevels(value, NESTING)
  return value
}

function wrong (message: string): never {
  return refuse('jwt', `not strict JSON: ${message}`)
}

class JsonReader {
  at = 0

  constructor (readonly text: string) {}

  item (levels: number): Json {
    this.space()
    if (levels === 0) wrong('nested too deep')
    switch (this.text[this.at]) {
      case '{': return this.#map(levels)
      case '[': return this.#list(levels)
      case '"': return this.#string()
      case 't': return this.#word('true', true)
      case 'f': return this.#word('false', false)
      case 'n': return this.#word('null', null)
      default: return this.#number()
    }
  }

  space (): void {
    while (' \t\n\r'.includes(this.text[this.at] ?? 'x')) this.at += 1
  }

  #skips (letter: string): boolean {
    this.space()
    if (this.text[this.at] !== letter) return false
    this.at += 1
    return true
  }

  #word<T> (word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) wrong('an unknown word')
    this.at += word.length
    return value
  }

  #number (): bigint {
    NUMBER.lastIndex = this.at
    const found = NUMBER.exec(this.text)?.[0] ?? wrong('no value')
    this.at += found.length
    if (/[.eE]/.test(found) || found === '-0' || found.length > 21) wrong('a number that is no integer')
    const number = BigInt(found)
    if (number > INTEGER_MAX || number < -INTEGER_MAX - 1n) wrong('an integer outside of its range')
    return number
  }

  #string (): string {
    let found = ''
    this.at += 1
    for (;;) {
      PLAIN.lastIndex = this.at
      const plain = PLAIN.exec(this.text)![0]
      found += plain
      this.at += plain.length
      const letter = this.text[this.at]
      if (letter === '"') break
      if (letter !== '\\') wrong('a text that does not end, or a control character')
      found += this.#escape()
    }
    this.at += 1
    if (/\p{Surrogate}/u.test(found)) wrong('half a surrogate pair')
    return found
  }

  #escape (): string {
    const letter = this.text[this.at + 1] ?? ''
    if (letter !== 'u') {
      this.at += 2
      return ESCAPES[letter] ?? wrong('an unknown escape')
    }
    const digits = this.text.slice(this.at + 2, this.at + 6)
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) wrong('an escape without four digits')
    this.at += 6
    return String.fromCharCode(parseInt(digits, 16))
  }

  #list (levels: number): Json[] {
    const found: Json[] = []
    this.at += 1
    if (this.#skips(']')) return found
    do found.push(this.item(levels - 1)); while (this.#skips(','))
    if (!this.#skips(']')) wrong('a list that does not end')
    return found
  }

  #map (levels: number): Map<string, Json> {
    const found = new Map<string, Json>()
    this.at += 1
    if (this.#skips('}')) return found
    do {
      this.space()
      if (this.text[this.at] !== '"') wrong('a key that is no text')
      const key = this.#string()
      if (found.has(key)) wrong('a repeated key')
      if (!this.#skips(':')) wrong('a key without value')
      found.set(key, this.item(levels - 1))
    } while (this.#skips(','))
    if (!this.#skips('}')) wrong('a map that does not end')
    return found
  }
}

/** The maps that spell links and bytes are no level of the value. */
function checkLevels (value: Json, levels: number): void {
  if (!(value instanceof Map || Array.isArray(value))) return
  const inner = value instanceof Map && value.has('/') ? levels + 1 : levels - 1
  if (inner < 0) wrong(`nested more than ${NESTING} deep`)
  for (const item of value instanceof Map ? value.values() : value) checkLevels(item, inner)
}

/** What JSON says as a value: `{"/": …}` is a link or bytes in canonical text, and nothing else; raises `schema`. */
export function fromDagJson (value: Json, levels = NESTING): Value {
  if (value instanceof Map) {
    if (value.has('/')) return reserved(value)
    const found: DagMap = new Map()
    if (levels === 0) refuse('schema', 'nested too deep')
    for (const [key, item] of value) found.set(key, fromDagJson(item, levels - 1))
    return found
  }
  if (!Array.isArray(value)) return value
  if (levels === 0) refuse('schema', 'nested too deep')
  return value.map((item) => fromDagJson(item, levels - 1))
}

function reserved (value: Map<string, Json>): Value {
  const inner = value.get('/')
  if (value.size === 1 && typeof inner === 'string') return linkOf(inner)
  const text = inner instanceof Map && inner.size === 1 ? inner.get('bytes') : undefined
  const bytes = value.size === 1 && typeof text === 'string' ? fromBase64(text) : undefined
  return bytes ?? refuse('schema', 'the key / is neither a link nor bytes')
}

export function linkOf (text: string): Cid {
  try {
    return Cid.parse(text)
  } catch {
    return refuse('schema', 'not the text of a CID')
  }
}
