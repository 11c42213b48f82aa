// UCANs of version 0.9.1 (4.2, 4.3): the map and the JWT, their rules, what is signed, and the signature.
import { type Bytes, DagError, fromBase58, fromBase64Url, fromUtf8, refuse, startsWith, toBase58, toBase64Url, utf8 } from './bytes.js'
import { checkAscending, Cid, DAG_CBOR, RAW } from './cid.js'
import { type DagMap, decodeDagCbor, type Value } from './dag_cbor.js'
import { encodeDagJson, fromDagJson, type Json, linkOf, strictJson } from './dag_json.js'
import { verify } from './ed25519.js'

export interface Capability {
  can: string
  with: string
  nb: DagMap
}

export interface Ucan {
  /** Of its block: the map, or the text of a JWT. */
  cid: Cid
  /** 34 bytes, as did:key has them. */
  issuer: Bytes
  audience: Bytes
  capabilities: Capability[]
  expires: bigint | null
  notBefore: bigint | null
  facts: DagMap[]
  proofs: Cid[]
  signature: Bytes
  signedText: Bytes
  /** Whether what is signed is formatted as the map form has it. */
  isCanonical: boolean
}

const VERSION = '0.9.1'
const UCAN_MAX = 65_536
const PROOFS_MAX = 16
const REVOKED_MAX = 64
const TIME_MAX = (1n << 53n) - 1n
const REQUIRED = ['att', 'aud', 'exp', 'iss', 'prf']
const OPTIONAL = ['fct', 'nbf', 'nnc']
const LONG_REQUIRED = ['issuer', 'audience', 'capabilities', 'expiration', 'proofs', 'version', 'signature']
const LONG_OPTIONAL = ['facts', 'nonce', 'notBefore']
const EDDSA = [0xed, 0xa1, 0x03, 0x40]
const DID_START = [0xed, 0x01]
const DID_TEXT = 'did:key:z'
const ABILITY = /^[!-@[-~]+$/
// White space is more in Python than here, by the five before the end.
const RESOURCE = /^[a-z][a-z0-9+.-]*:[^\s\u001c-\u001f\u0085]+$/
const REVOKE = 'dag/revoke'

/** The did:key of an Ed25519 public key, in 34 bytes. */
export function didKey (key: Bytes): Bytes {
  return Uint8Array.of(...DID_START, ...key)
}

export function didText (did: Bytes): string {
  return DID_TEXT + toBase58(did)
}

/** The 34 bytes of a did:key in its one spelling. */
export function didFromText (text: string): Bytes {
  const did = text.startsWith(DID_TEXT) ? fromBase58(text.slice(DID_TEXT.length), 34) : undefined
  return did !== undefined && isDid(did) ? did : refuse('key', 'no Ed25519 did:key')
}

/** The UCAN of a block whose CID was checked; form and signature are checked here. */
export async function ucanOf (cid: Cid, data: Bytes): Promise<Ucan> {
  return await checkSignature(cid.codec === RAW ? await ucanOfText(fromUtf8(data) ?? refuse('jwt', 'not a text')) : await ucanOfBlock(data))
}

export async function ucanOfBlock (data: Bytes): Promise<Ucan> {
  checkSize(data.length)
  return await ucanOfMap(decodeDagCbor(data), data)
}

/** The UCAN of a map whose canonical bytes are `data`. */
export async function ucanOfMap (map: Value, data: Bytes): Promise<Ucan> {
  checkSize(data.length)
  if (!(map instanceof Map)) refuse('schema', 'a UCAN is a map')
  if (isLongForm(map)) refuse('ucan_version', 'the long form of 0.8.1')
  checkNames(map, ['v', 's', ...REQUIRED])
  const signature = map.get('s')
  if (typeof map.get('v') !== 'string') refuse('schema', 'the version is no text')
  if (map.get('v') !== VERSION) refuse('ucan_version', 'another version')
  checkFields(map)
  if (!(signature instanceof Uint8Array)) refuse('schema', 'the signature is no bytes')
  if (![map.get('iss'), map.get('aud')].every(isDid)) refuse('key', 'no Ed25519 did:key')
  if (!startsWith(signature, EDDSA)) refuse('signature', 'not an EdDSA signature')
  return makeUcan(map, await Cid.of(DAG_CBOR, data), signature.slice(EDDSA.length), undefined)
}

/** The UCAN of a JWT; its block is the text. */
export async function ucanOfText (text: string): Promise<Ucan> {
  const data = utf8(text)
  checkSize(data.length)
  const written = text.split('.')
  if (written.length !== 3) refuse('jwt', 'not exactly three parts')
  const [head, payload, signature] = written.map((part) => fromBase64Url(part) ?? refuse('jwt', 'a part that is no base64url')) as [Bytes, Bytes, Bytes]
  const [header, said] = [head, payload].map((part) => strictJson(fromUtf8(part) ?? refuse('jwt', 'not a text'))) as [Json, Json]
  if (!(header instanceof Map) || header.size !== 3 || header.get('alg') !== 'EdDSA' || header.get('typ') !== 'JWT') refuse('jwt', 'a header of another kind')
  if (typeof header.get('ucv') !== 'string') refuse('jwt', 'a header without version')
  if (!(said instanceof Map)) refuse('jwt', 'a payload that is not a map')
  if (header.get('ucv') !== VERSION) refuse('ucan_version', 'another version')
  const map = fieldsOf(said)
  return makeUcan(map, await Cid.of(RAW, data), signature, `${written[0]}.${written[1]}`)
}

/** Raises unless the issuer signed. */
export async function checkSignature (ucan: Ucan): Promise<Ucan> {
  if (!await verify(ucan.issuer.slice(2), ucan.signature, ucan.signedText)) refuse('signature', 'the issuer did not sign this')
  return ucan
}

/** What a leaf of the id itself revokes (R32); the fact in any other form is `schema`. */
export function revokedBy (ucan: Ucan): Cid[] {
  const found = ucan.facts.filter((fact) => fact.has(REVOKE))
  if (found.length === 0) return []
  const links = found[0]!.get(REVOKE)
  const isAlone = found.length === 1 && found[0]!.size === 1
  if (!isAlone || !Array.isArray(links) || links.length < 1 || links.length > REVOKED_MAX) return refuse('schema', 'dag/revoke is not alone with 1 to 64 links')
  if (!links.every(isProofLink)) return refuse('schema', 'what is revoked is no link to a UCAN')
  try {
    checkAscending(links)
  } catch (error) {
    if (error instanceof DagError) refuse('schema', error.message)
    throw error
  }
  return links
}

function makeUcan (map: DagMap, cid: Cid, signature: Bytes, text: string | undefined): Ucan {
  if (signature.length !== 64) refuse('signature', 'not a signature of 64 bytes')
  const canonical = canonicalText(map)
  return {
    cid,
    issuer: map.get('iss') as Bytes,
    audience: map.get('aud') as Bytes,
    capabilities: (map.get('att') as DagMap[]).map((one) => ({
      can: one.get('can') as string, with: one.get('with') as string, nb: (one.get('nb') ?? new Map()) as DagMap
    })),
    expires: map.get('exp') as bigint | null,
    notBefore: (map.get('nbf') ?? null) as bigint | null,
    facts: (map.get('fct') ?? []) as DagMap[],
    proofs: map.get('prf') as Cid[],
    signature,
    signedText: utf8(text ?? canonical),
    isCanonical: text === undefined || text === canonical
  }
}

/** Header and payload as the map form signs them. */
function canonicalText (map: DagMap): string {
  const payload: DagMap = new Map()
  for (const name of [...REQUIRED, ...OPTIONAL]) {
    const value = map.get(name)
    if (value !== undefined) payload.set(name, value)
  }
  payload.set('iss', didText(map.get('iss') as Bytes))
  payload.set('aud', didText(map.get('aud') as Bytes))
  payload.set('prf', (map.get('prf') as Cid[]).map((one) => one.text))
  const header: DagMap = new Map([['alg', 'EdDSA'], ['typ', 'JWT'], ['ucv', VERSION]])
  return [header, payload].map((part) => toBase64Url(utf8(encodeDagJson(part)))).join('.')
}

/** The fields of a JWT's payload, as the map has them. */
function fieldsOf (payload: Json): DagMap {
  const map = fromDagJson(payload)
  if (!(map instanceof Map)) refuse('schema', 'a payload that is no map')
  checkNames(map, REQUIRED)
  const [issuer, audience, proofs] = ['iss', 'aud', 'prf'].map((name) => map.get(name))
  if (typeof issuer !== 'string' || typeof audience !== 'string') refuse('schema', 'iss or aud is no text')
  if (!Array.isArray(proofs) || proofs.length > PROOFS_MAX) refuse('schema', 'prf is no list of at most 16')
  const links = proofs.map((one) => typeof one === 'string' ? linkOf(one) : refuse('schema', 'a proof that is no text'))
  // The other fields first: their code stands before that of the keys.
  checkFields(new Map<string, Value>([...map, ['iss', new Uint8Array()], ['aud', new Uint8Array()], ['prf', links]]))
  return new Map<string, Value>([...map, ['iss', didFromText(issuer)], ['aud', didFromText(audience)], ['prf', links]])
}

/** Whether a map has the names of 0.8.1, which a deployment takes under an option that is not offered here. */
function isLongForm (map: DagMap): boolean {
  const isKnown = [...map.keys()].every((name) => LONG_REQUIRED.includes(name) || LONG_OPTIONAL.includes(name))
  return isKnown && LONG_REQUIRED.every((name) => map.has(name)) && typeof map.get('version') === 'string'
}

function checkSize (size: number): void {
  if (size > UCAN_MAX) refuse('too_large', `a UCAN over ${UCAN_MAX} bytes`)
}

function checkNames (map: DagMap, required: string[]): void {
  const known = [...map.keys()].every((name) => required.includes(name) || OPTIONAL.includes(name))
  if (!known || !required.every((name) => map.has(name))) refuse('schema', 'other keys than a UCAN has')
}

function isDid (value: Value | undefined): boolean {
  return value instanceof Uint8Array && value.length === 34 && startsWith(value, DID_START)
}

export function isProofLink (value: Value): value is Cid {
  return value instanceof Cid && value.isSha256(DAG_CBOR, RAW)
}

function checkFields (map: DagMap): void {
  const require = (holds: boolean, name: string): void => { if (!holds) refuse('schema', `${name} is not as it must be`) }
  const isTime = (value: Value | undefined, least: bigint): boolean => typeof value === 'bigint' && value >= least && value <= TIME_MAX
  const get = (name: string): Value | undefined => map.get(name)
  const [facts, nonce, proofs, capabilities] = ['fct', 'nnc', 'prf', 'att'].map(get)
  require([get('iss'), get('aud')].every((key) => key instanceof Uint8Array), 'iss or aud')
  require(Array.isArray(capabilities) && capabilities.every(isCapability), 'att')
  require(get('exp') === null || isTime(get('exp'), 0n), 'exp')
  require(!map.has('nbf') || isTime(get('nbf'), 1n), 'nbf')
  require(!map.has('nnc') || (typeof nonce === 'string' && nonce !== ''), 'nnc')
  require(!map.has('fct') || (Array.isArray(facts) && facts.length > 0 && facts.every((fact) => fact instanceof Map && isPlain(fact))), 'fct')
  require(Array.isArray(proofs) && proofs.length <= PROOFS_MAX && proofs.every(isProofLink), 'prf')
}

function isCapability (one: Value): boolean {
  if (!(one instanceof Map)) return false
  const [can, resource, nb] = ['can', 'with', 'nb'].map((name) => one.get(name))
  if (typeof can !== 'string' || typeof resource !== 'string' || !RESOURCE.test(resource)) return false
  const slash = can.indexOf('/')
  if (can !== '*' && !(ABILITY.test(can) && slash > 0 && slash < can.length - 1)) return false
  return one.size === (one.has('nb') ? 3 : 2) && (!one.has('nb') || (nb instanceof Map && isPlain(nb)))
}

/** Without floats and keys "/", which JSON could spell in two ways. */
function isPlain (value: Value): boolean {
  if (value instanceof Map) return !value.has('/') && [...value.values()].every(isPlain)
  return Array.isArray(value) ? value.every(isPlain) : typeof value !== 'number'
}
