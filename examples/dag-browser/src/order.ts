// The total order of an id's publishes (5.2, 5.3), which everybody who has the same ones computes alike.
// Always the smallest CID whose prior is out; as a sort key: the suffix maxima of the path from the root.

/** CIDs on the path from the root that are greater than everything behind them; the last one is the own. */
type Key = readonly string[]

interface Ranked { cid: string, key: Key }

export interface OrderChange {
  /** The first place that changed; the length of the order when none did. */
  start: number
  changed: number
}

export class TotalOrder {
  readonly #priors = new Map<string, string | undefined>()
  readonly #keys = new Map<string, Key>()
  readonly #waiting = new Map<string, string[]>()
  readonly #ranked: Ranked[] = []

  /** Take an operation, in any order of arrival; one whose prior is not here is held. */
  add (cid: string, prior: string | undefined): OrderChange {
    let start = Infinity
    if (!this.#priors.has(cid)) {
      this.#priors.set(cid, prior)
      if (prior !== undefined && !this.#keys.has(prior)) {
        this.#waiting.set(prior, [...this.#waiting.get(prior) ?? [], cid])
      } else {
        for (const ready = [cid]; ready.length > 0;) {
          const one = ready.pop()!
          start = Math.min(start, this.#admit(one))
          ready.push(...this.#waiting.get(one) ?? [])
          this.#waiting.delete(one)
        }
      }
    }
    start = Math.min(start, this.#ranked.length)
    return { start, changed: this.#ranked.length - start }
  }

  #admit (cid: string): number {
    const prior = this.#priors.get(cid)
    const path = prior === undefined ? [] : this.#keys.get(prior)!
    // The key of the prior without what is smaller at its end, and the own CID.
    const key = [...path.slice(0, path.findLastIndex((one) => one > cid) + 1), cid]
    this.#keys.set(cid, key)
    const place = this.#placeOf(key)
    this.#ranked.splice(place, 0, { cid, key })
    return place
  }

  #placeOf (key: Key): number {
    let [low, high] = [0, this.#ranked.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (compareKeys(this.#ranked[middle]!.key, key) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  has (cid: string): boolean {
    return this.#keys.has(cid)
  }

  /** All operations, first to last. */
  get order (): string[] {
    return this.#ranked.map((one) => one.cid)
  }

  /** The last operation: what is published now, and what the next one links to. */
  get tip (): string | undefined {
    return this.#ranked.at(-1)?.cid
  }

  get tipKey (): Key {
    return this.#ranked.at(-1)?.key ?? []
  }

  /** Those on which none builds, ascending: beside the tip, publishes that lost a race. */
  get heads (): string[] {
    const parents = new Set([...this.#keys.keys()].map((cid) => this.#priors.get(cid)))
    return [...this.#keys.keys()].filter((cid) => !parents.has(cid)).sort()
  }

  /** Those that wait for a prior, ascending. */
  get held (): string[] {
    return [...this.#waiting.values()].flat().sort()
  }
}

function compareKeys (one: Key, other: Key): number {
  const place = one.findIndex((cid, at) => cid !== other[at])
  if (place < 0) return one.length - other.length
  const against = other[place]
  return against === undefined || one[place]! > against ? 1 : -1
}
