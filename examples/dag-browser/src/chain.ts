// Does a leaf, with the delegations below it, authorise a publish? (4.4, 4.5, R20, R22, R24, R32)
// First without a clock: what fails then fails for ever. What is missing may still come, so it stands last.
import { type Bytes, DagError, equal } from './bytes.js'
import type { Cid } from './cid.js'
import { type Capability, didText, revokedBy, type Ucan } from './ucan.js'

const PUBLISH = 'dag/publish'
const DELEGATIONS_MAX = 16
const RANKED = [
  'proof_form', 'too_large', 'jwt', 'non_canonical', 'bad_cid', 'schema', 'ucan_version', 'key', 'signature', 'audience',
  'ability', 'resource', 'unbound', 'attenuation', 'root_issuer', 'chain_too_long', 'revoked', 'not_yet_valid', 'expired',
  'proof_missing'
]

/** Codes of what may still become good: by what comes, or at another time of receipt. */
export const NOT_FINAL = ['not_yet_valid', 'expired', 'proof_missing']

/** What of a deployment's verdict settings decides about chains (R28). */
export interface ChainPolicy {
  policy: 'bound' | 'bearer'
  /** did:keys, in 34 bytes each, that may be the audience of a leaf. */
  services: Bytes[]
  leeway: bigint
}

export const DEFAULT_POLICY: ChainPolicy = { policy: 'bound', services: [], leeway: 0n }

/** What a publish says, and what its proof must allow. */
export interface Claimed {
  /** The id, in 34 bytes. */
  id: Bytes
  /** link, origin, and prior and shard where the publish has them. */
  fields: Map<string, Cid>
}

/** UCANs by the text of their CID: a good one, or why it is none. */
export type Ucans = Map<string, Ucan | DagError>

/** Raises why the leaf does not authorise. Without a time of receipt: the part of the verdict without clock. */
export function authorise (
  leaf: Ucan,
  claimed: Claimed,
  ucans: Ucans,
  received: bigint | undefined,
  policy = DEFAULT_POLICY,
  revoked: ReadonlySet<string> = new Set()
): void {
  for (const time of received === undefined ? [undefined] : [undefined, received]) {
    const search = new Search(claimed, ucans, time, policy, revoked)
    if (!search.leafIsGood(leaf)) throw search.failure()
  }
}

class Search {
  readonly #failures = new Map<string, DagError>()
  readonly #lookedAt = new Set<string>()
  readonly #did: string

  constructor (
    readonly claimed: Claimed,
    readonly ucans: Ucans,
    readonly time: bigint | undefined,
    readonly policy: ChainPolicy,
    readonly revoked: ReadonlySet<string>
  ) {
    this.#did = didText(claimed.id)
  }

  /** The failure that stands last in the list. */
  failure (): DagError {
    return [...this.#failures.values()].sort((one, other) => RANKED.indexOf(other.code) - RANKED.indexOf(one.code))[0]!
  }

  leafIsGood (leaf: Ucan): boolean {
    if (equal(leaf.issuer, this.claimed.id) && this.#failsWith(() => revokedBy(leaf))) return false
    if (this.revoked.has(leaf.cid.text)) return this.#fails('revoked', 'the leaf is revoked')
    const audiences = [this.claimed.id, leaf.issuer, ...this.policy.services]
    if (!audiences.some((one) => equal(one, leaf.audience))) return this.#fails('audience', 'the audience of the leaf is another key')
    if (leaf.capabilities.length === 0) return this.#fails('ability', 'the leaf has no capability')
    const fits = leaf.capabilities.map((one) => this.#leafFits(one))
    return fits.includes(true) && this.#isEntitled(leaf, 0)
  }

  #leafFits (one: Capability): boolean {
    if (one.can !== PUBLISH) return this.#fails('ability', 'the leaf has another ability')
    if (one.with !== this.#did) return this.#fails('resource', 'the leaf is for another resource')
    const fields = this.claimed.fields
    const namesAll = this.policy.policy === 'bearer' || (one.nb.size === fields.size && [...fields.keys()].every((name) => one.nb.has(name)))
    if (!namesAll || !this.#namesOnly(one)) return this.#fails('unbound', 'the leaf does not name what is published')
    return true
  }

  #namesOnly (one: Capability): boolean {
    return [...one.nb].every(([name, value]) => {
      const field = this.claimed.fields.get(name)
      return field !== undefined && (value as Partial<Cid>)?.text === field.text
    })
  }

  /** Whether the issuer of a UCAN whose capability fits may do what it says. */
  #isEntitled (ucan: Ucan, depth: number): boolean {
    if (this.time !== undefined) {
      if (ucan.notBefore !== null && ucan.notBefore > this.time + this.policy.leeway) return this.#fails('not_yet_valid', 'received before it was valid')
      if (ucan.expires !== null && this.time - this.policy.leeway >= ucan.expires) return this.#fails('expired', 'received when it had expired')
    }
    if (equal(ucan.issuer, this.claimed.id)) return true
    if (ucan.proofs.length === 0) return this.#fails('root_issuer', 'the chain does not end at the id')
    if (depth === DELEGATIONS_MAX) return this.#fails('chain_too_long', `more than ${depth} delegations`)
    return [...new Set(ucan.proofs.map((one) => one.text))].some((cid) => this.#delegates(cid, ucan, depth + 1))
  }

  #delegates (cid: string, to: Ucan, depth: number): boolean {
    if (this.revoked.has(cid)) return this.#fails('revoked', 'a proof is revoked')
    const proof = this.ucans.get(cid)
    if (proof === undefined) return this.#fails('proof_missing', `the proof ${cid} is not here`)
    if (proof instanceof DagError) return this.#fails(proof.code, proof.message)
    if (!equal(proof.audience, to.issuer)) return this.#fails('audience', 'the audience of a proof is another key')
    if (this.#lookedAt.has(`${depth} ${cid}`)) return false
    this.#lookedAt.add(`${depth} ${cid}`)
    if (proof.capabilities.length === 0) return this.#fails('ability', 'a proof has no capability')
    const fits = proof.capabilities.map((one) => this.#proofFits(one))
    return fits.includes(true) && this.#isEntitled(proof, depth)
  }

  #proofFits (one: Capability): boolean {
    const covers = [PUBLISH, '*'].includes(one.can) || (one.can.endsWith('/*') && PUBLISH.startsWith(one.can.slice(0, -1)))
    if (!covers) return this.#fails('ability', 'a proof does not cover the ability')
    if (![this.#did, 'ucan:*'].includes(one.with)) return this.#fails('resource', 'a proof does not cover the resource')
    return this.#namesOnly(one) || this.#fails('attenuation', 'a proof allows less')
  }

  #failsWith (check: () => unknown): boolean {
    try {
      check()
      return false
    } catch (error) {
      if (!(error instanceof DagError)) throw error
      return !this.#fails(error.code, error.message)
    }
  }

  #fails (code: string, message: string): false {
    if (!this.#failures.has(code)) this.#failures.set(code, new DagError(code, message))
    return false
  }
}

/** Whether a refusal is a function of bytes alone, so that it stays whatever comes (R25). */
export function isFinal (error: DagError): boolean {
  return !NOT_FINAL.includes(error.code)
}

/** What a promise fails with, if that is a refusal. */
export async function orRefusal<T> (promise: Promise<T>): Promise<T | DagError> {
  try {
    return await promise
  } catch (error) {
    if (error instanceof DagError) return error
    throw error
  }
}
