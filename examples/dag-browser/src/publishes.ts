// What is published under an id, from blocks that nobody needs to be trusted for (3.1, 4.5, R25, R32).
import { type Bytes, DagError, equal } from './bytes.js'
import type { Block } from './car.js'
import { authorise, type ChainPolicy, DEFAULT_POLICY, isFinal, orRefusal, type Ucans } from './chain.js'
import type { Cid } from './cid.js'
import { decodeNode, type Publish, type ReplicaNode } from './node.js'
import { TotalOrder } from './order.js'
import { checkSignature, didKey, revokedBy, ucanOf } from './ucan.js'

export interface Published {
  order: TotalOrder
  /** Those in the order, by CID. */
  publishes: Map<string, Publish>
  /** In the order, and not to be read: what authorised them was revoked at an earlier place. */
  revoked: Set<string>
  /** Why others are not in the order, by CID. Not final: `not_yet_valid`, `expired`, `proof_missing`. */
  refused: Map<string, DagError>
  /** Authorised ones whose prior is not in the order, by CID: that prior. */
  waiting: Map<string, string>
}

/** Times of receipt of a publish, in seconds, where they are known: only whoever received it can say. */
export type Receipts = (cid: string) => bigint[]

/**
 * The order of an id. Blocks of other ids or kinds may be among `nodes`: they are refused, or have no part in it.
 * Without receipts, expiry is not judged: what it would refuse is not in the order of an honest door.
 */
export async function publishedOf (
  id: Bytes, nodes: Iterable<Block>, ucans: Iterable<Block>, policy: ChainPolicy = DEFAULT_POLICY, receipts?: Receipts
): Promise<Published> {
  const known: Ucans = new Map()
  for (const block of ucans) known.set(block.cid.text, await orRefusal(checkedUcan(block)))
  const decoded = new Map<string, ReplicaNode>()
  const refused = new Map<string, DagError>()
  const authorised: Array<[ReplicaNode, Publish]> = []
  for (const { cid, bytes } of nodes) {
    const node = await orRefusal(checkedNode(cid, bytes))
    if (node instanceof DagError) {
      refused.set(cid.text, node)
      continue
    }
    decoded.set(cid.text, node)
    if (node.change.type !== 'publish' || !equal(node.change.id, id)) continue
    const error = await judge(node, node.change, known, receipts?.(cid.text), policy)
    if (error === undefined) authorised.push([node, node.change])
    else refused.set(cid.text, error)
  }
  const found = admit(id, decoded, authorised, refused)
  markRevoked(found, decoded, known, policy, receipts)
  return found
}

async function checkedUcan ({ cid, bytes }: Block): ReturnType<typeof ucanOf> {
  await cid.check(bytes)
  return await ucanOf(cid, bytes)
}

async function checkedNode (cid: Cid, data: Bytes): Promise<ReplicaNode> {
  await cid.check(data)
  return await decodeNode(data)
}

/** Why a publish is not authorised, if it is not: at one of its receipts is enough. */
async function judge (
  node: ReplicaNode, change: Publish, ucans: Ucans, times: bigint[] | undefined, policy: ChainPolicy
): Promise<DagError | undefined> {
  const signed = await orRefusal(checkSignature(change.proof))
  return signed instanceof DagError ? signed : unauthorised(node, change, ucans, times, policy, new Set())
}

function unauthorised (
  node: ReplicaNode, change: Publish, ucans: Ucans, times: bigint[] | undefined, policy: ChainPolicy, revoked: ReadonlySet<string>
): DagError | undefined {
  const fields = new Map([['link', change.link], ['origin', change.origin]])
  if (node.prior !== undefined) fields.set('prior', node.prior)
  if (change.shard !== undefined) fields.set('shard', change.shard)
  let refusal: DagError | undefined
  for (const time of times ?? [undefined]) {
    try {
      authorise(change.proof, { id: didKey(change.id), fields }, ucans, time, policy, revoked)
      return undefined
    } catch (error) {
      if (!(error instanceof DagError)) throw error
      // A proof that may still come is the better news.
      if (refusal?.code !== 'proof_missing') refusal = error
    }
  }
  return refusal
}

/** Into the order: what is authorised, and builds on nothing or on what is in the order (R11). */
function admit (
  id: Bytes, decoded: Map<string, ReplicaNode>, authorised: Array<[ReplicaNode, Publish]>, refused: Map<string, DagError>
): Published {
  const found: Published = { order: new TotalOrder(), publishes: new Map(), revoked: new Set(), refused, waiting: new Map() }
  const children = new Map<string | undefined, Array<[ReplicaNode, Publish]>>()
  for (const one of authorised) {
    const prior = one[0].prior?.text
    children.set(prior, [...children.get(prior) ?? [], one])
  }
  for (const ready = [...children.get(undefined) ?? []]; ready.length > 0;) {
    const [node, change] = ready.pop()!
    found.order.add(node.cid.text, node.prior?.text)
    found.publishes.set(node.cid.text, change)
    ready.push(...children.get(node.cid.text) ?? [])
  }
  const left = authorised.filter(([node]) => !found.order.has(node.cid.text))
  for (const [node] of left) found.waiting.set(node.cid.text, node.prior!.text)
  for (let more = true; more;) {
    more = false
    for (const [cid, priorText] of found.waiting) {
      const error = faultOfPrior(id, decoded.get(priorText), refused.get(priorText))
      if (error === undefined) continue
      refused.set(cid, error)
      found.waiting.delete(cid)
      more = true
    }
  }
  return found
}

function faultOfPrior (id: Bytes, prior: ReplicaNode | undefined, refusal: DagError | undefined): DagError | undefined {
  if (refusal !== undefined && isFinal(refusal)) return new DagError('prior_refused', 'it builds on what is refused for good')
  if (prior !== undefined && prior.change.type !== 'publish') return new DagError('mixed_chain', 'it builds on what is no publish')
  if (prior?.change.type === 'publish' && !equal(prior.change.id, id)) return new DagError('id_changed', 'it builds on another id')
  return undefined
}

/** Revocations act from their place of the order on. */
function markRevoked (
  found: Published, decoded: Map<string, ReplicaNode>, ucans: Ucans, policy: ChainPolicy, receipts: Receipts | undefined
): void {
  const gone = new Set<string>()
  for (const cid of found.order.order) {
    const change = found.publishes.get(cid)!
    const error = gone.size > 0 ? unauthorised(decoded.get(cid)!, change, ucans, receipts?.(cid), policy, gone) : undefined
    if (error !== undefined && error.code !== 'proof_missing') found.revoked.add(cid)
    else if (equal(change.proof.issuer, didKey(change.id))) for (const one of revokedBy(change.proof)) gone.add(one.text)
  }
}
