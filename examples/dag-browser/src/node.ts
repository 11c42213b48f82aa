// Nodes and their bytes (3.1): the checks run in one order, and the first that fails decides.
import { type Bytes, equal, refuse } from './bytes.js'
import { checkAscending, Cid, DAG_CBOR } from './cid.js'
import { type DagMap, decodeDagCbor, encodeDagCbor, type Value } from './dag_cbor.js'
import { didKey, revokedBy, type Ucan, ucanOfMap, ucanOfText } from './ucan.js'

export interface Append { type: 'append', shards: Cid[] }
export interface Join { type: 'join', forks: Cid[] }
export interface Publish {
  type: 'publish'
  /** The Ed25519 public key. */
  id: Bytes
  link: Cid
  origin: Cid
  shard: Cid | undefined
  /** Its form is checked, its signature is not. */
  proof: Ucan
}

export interface ReplicaNode {
  cid: Cid
  prior: Cid | undefined
  change: Append | Join | Publish
}

const NODE_MAX = 262_144
const SHARDS_MAX = 4_096
const FORKS_MAX = 256

export async function decodeNode (data: Bytes): Promise<ReplicaNode> {
  if (data.length > NODE_MAX) refuse('too_large', `a node over ${NODE_MAX} bytes`)
  const value = decodeDagCbor(data)
  if (!(value instanceof Map)) refuse('schema', 'a node is a map')
  const change = value.get('change')
  if (!(change instanceof Map) || value.size !== (value.has('prior') ? 2 : 1)) refuse('schema', 'a node is a map of change and perhaps prior')
  let prior: Cid | undefined
  if (value.has('prior')) {
    prior = linkOf(value.get('prior'))
    checkReplicas([prior], 'prior_codec')
  }
  return { prior, change: await changeOf(change, prior), cid: await Cid.of(DAG_CBOR, data) }
}

async function changeOf (change: DagMap, prior: Cid | undefined): Promise<Append | Join | Publish> {
  switch (change.get('type')) {
    case 'append': return appendOf(change)
    case 'join': return joinOf(change, prior)
    case 'publish': return await publishOf(change)
    default: return refuse(typeof change.get('type') === 'string' ? 'unknown_change' : 'schema', 'a change of no known type')
  }
}

function appendOf (change: DagMap): Append {
  const shards = linksOf(change, 'shards')
  if (shards.length > SHARDS_MAX) refuse('too_many', `more than ${SHARDS_MAX} shards`)
  checkVersions(shards)
  checkAscending(shards)
  return { type: 'append', shards }
}

function joinOf (change: DagMap, prior: Cid | undefined): Join {
  const forks = linksOf(change, 'forks')
  if (forks.length > FORKS_MAX) refuse('too_many', `more than ${FORKS_MAX} forks`)
  if (prior === undefined) refuse('join_prior_missing', 'a join without prior')
  if (forks.length === 0) refuse('join_empty', 'a join without forks')
  checkReplicas(forks, 'fork_codec')
  checkAscending(forks)
  if (prior.text >= forks[0]!.text) refuse('join_prior_order', 'the prior is not smaller than every fork')
  return { type: 'join', forks }
}

async function publishOf (change: DagMap): Promise<Publish> {
  const names = ['type', 'id', 'link', 'origin', 'proof', ...(change.has('shard') ? ['shard'] : [])]
  if (change.size !== names.length || !names.every((name) => change.has(name))) refuse('schema', 'a publish with other keys than it has')
  const [id, proof] = [change.get('id'), change.get('proof')!]
  if (!(id instanceof Uint8Array) || id.length !== 32) refuse('schema', 'id is not 32 bytes')
  const link = linkOf(change.get('link'))
  const origin = linkOf(change.get('origin'))
  const shard = change.has('shard') ? linkOf(change.get('shard')) : undefined
  const isProof = proof instanceof Map || typeof proof === 'string' || proof instanceof Uint8Array || proof instanceof Cid
  if (!isProof) refuse('schema', 'proof is neither map, text, bytes nor link')
  checkVersions(shard === undefined ? [origin] : [origin, shard])
  checkReplicas([origin], 'origin_codec')
  const ucan = await proofOf(proof)
  if (equal(ucan.issuer, didKey(id))) revokedBy(ucan)
  return { type: 'publish', id, link, origin, shard, proof: ucan }
}

/** One form of a proof only (R23), so that nobody makes a second operation out of an authorised one. */
async function proofOf (proof: Value): Promise<Ucan> {
  if (proof instanceof Map) return await ucanOfMap(proof, encodeDagCbor(proof))
  if (typeof proof !== 'string') refuse('proof_form', 'a proof as bytes or as a link')
  const ucan = await ucanOfText(proof)
  if (ucan.isCanonical) refuse('proof_form', 'a proof as text although its map expresses it')
  return ucan
}

function linkOf (value: Value | undefined): Cid {
  return value instanceof Cid ? value : refuse('schema', 'not a link')
}

function linksOf (change: DagMap, name: string): Cid[] {
  const links = change.get(name)
  if (change.size !== 2 || !Array.isArray(links)) refuse('schema', `a change that is not exactly type and ${name}`)
  return links.map(linkOf)
}

function checkVersions (links: Cid[]): void {
  if (links.some((one) => one.version !== 1)) refuse('cid_version', 'no CIDv1')
}

function checkReplicas (links: Cid[], code: string): void {
  checkVersions(links)
  if (!links.every((one) => one.isSha256(DAG_CBOR))) refuse(code, 'no replica')
}
