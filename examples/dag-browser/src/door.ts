// A door of DAGs over HTTP, as a page speaks to it: what it gives is proved here, what is brought it proves itself.
import { type Bytes, DagError, fromHex } from './bytes.js'
import { type Block, type Car, readCar, writeCar } from './car.js'
import { CAR, Cid } from './cid.js'
import type { ChainPolicy } from './chain.js'
import { decodeNode } from './node.js'
import { type Published, publishedOf } from './publishes.js'
import { ucanOf } from './ucan.js'

export const CHUNK = 917_504
/** Most of a body: four chunks. */
export const PART = 4 * CHUNK

/** An answer that says no, with the code of its problem details. */
export class DoorError extends Error {
  constructor (readonly status: number, readonly code: string, message: string) {
    super(message)
  }
}

export interface BlockResult { cid: string, status: number, code: string | null, waits_for: string[] }
export interface PublishResult { cid: string, is_in_order: boolean, waits_for: string[], results: BlockResult[] }

interface Listed { cid: string, state: string }
interface LogPage { count: number, log: Listed[] }

export class Door {
  /** `url` as https://example.org; `token` a configured one, or a UCAN as JWT. Ids and spaces are public keys in hex. */
  constructor (readonly url: string, readonly token?: string) {}

  async ask (path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    if (this.token !== undefined) headers.set('Authorization', `Bearer ${this.token}`)
    const answer = await fetch(this.url + path, { ...init, headers })
    if (answer.ok || init.method === 'HEAD') return answer
    const problem = await answer.json().catch(() => ({})) as { code?: string, detail?: string }
    throw new DoorError(answer.status, problem.code ?? '', problem.detail ?? answer.statusText)
  }

  /** One block, proved. */
  async block (cid: Cid): Promise<Bytes> {
    const data = await bytesOf(await this.ask(`/ipfs/${cid.text}?format=raw`))
    await cid.check(data)
    return data
  }

  /** The blocks of a path, and of what is below it by `scope`; each proved, and the first one asked for. */
  async car (cid: Cid, path = '', scope: 'block' | 'entity' | 'all' = 'all'): Promise<Car> {
    const car = await readCar(await bytesOf(await this.ask(`/ipfs/${cid.text}${path}?format=car&dag-scope=${scope}`)))
    if (!cid.isIdentity && car.blocks[0]?.cid.text !== cid.text) throw new DagError('missing_block', 'not the DAG that was asked for')
    return car
  }

  /** Bring a shard in parts; what lies there from before is not sent again. */
  async putShard (space: string, data: Bytes, onProgress: (sent: number) => void = () => {}): Promise<Cid> {
    const cid = await Cid.of(CAR, data)
    const path = `/shards/${cid.text}?space=${space}`
    const head = await this.ask(path, { method: 'HEAD' })
    if (head.ok) return cid
    const there = chunksOf(head.headers.get('Culm-Ranges'))
    for (let start = 0; start < data.length;) {
      let end = start
      while (end < data.length && end - start < PART && !there.has(end)) end += CHUNK
      end = Math.min(end, data.length)
      if (end > start) {
        const headers = { 'Content-Type': 'application/vnd.ipld.car', 'Content-Range': `bytes ${start}-${end - 1}/${data.length}` }
        await this.ask(path, { method: 'PUT', headers, body: data.slice(start, end) })
        onProgress(end)
      }
      start = end > start ? end : start + CHUNK
    }
    return cid
  }

  /** Bring nodes and UCANs, in any order. */
  async postNodes (space: string, blocks: Block[]): Promise<BlockResult[]> {
    const answer = await this.ask(`/spaces/${space}/nodes`, carOf(blocks))
    return (await answer.json() as { results: BlockResult[] }).results
  }

  /** Bring a publish and its UCANs. */
  async publish (blocks: Block[]): Promise<PublishResult> {
    const answer = await this.ask('/publishes', carOf(blocks))
    return await answer.json() as PublishResult
  }

  /**
   * What is published under an id, judged here: what the door lists, with the delegations that it names. A door may
   * hide what it has; it cannot put in, alter or rearrange anything.
   */
  async published (id: string, policy?: ChainPolicy): Promise<Published> {
    const nodes: Block[] = []
    for (let count = Infinity; nodes.length < count;) {
      const page = await (await this.ask(`/published/${id}/log?start=${nodes.length}`)).json() as LogPage
      count = page.log.length > 0 ? page.count : nodes.length
      for (const one of page.log) nodes.push(await this.#fetched(Cid.parse(one.cid)))
    }
    return await publishedOf(fromHex(id), nodes, await this.#delegations(nodes), policy)
  }

  async #fetched (cid: Cid): Promise<Block> {
    return { cid, bytes: await this.block(cid) }
  }

  /** UCANs below the leaves of publishes, as far as the door has them. */
  async #delegations (nodes: Block[]): Promise<Block[]> {
    const found = new Map<string, Block>()
    const wanted: Cid[] = []
    for (const { bytes } of nodes) {
      const { change } = await decodeNode(bytes)
      if (change.type === 'publish') wanted.push(...change.proof.proofs)
    }
    for (let cid = wanted.pop(); cid !== undefined; cid = wanted.pop()) {
      if (found.has(cid.text)) continue
      try {
        const block = await this.#fetched(cid)
        found.set(cid.text, block)
        wanted.push(...(await ucanOf(cid, block.bytes)).proofs)
      } catch (error) {
        // What is not there, or is no UCAN, may be of no importance: the verdict says.
        if (!(error instanceof DoorError || error instanceof DagError)) throw error
      }
    }
    return [...found.values()]
  }

  /** Events of an id, for `addEventListener`: tip, complete, superseded, revoked. The browser resumes by itself. */
  events (id: string): EventSource {
    // It can send no header: for doors whose readers show a token, read the stream of fetch.
    return new EventSource(`${this.url}/events?id=${id}`)
  }
}

async function bytesOf (answer: Response): Promise<Bytes> {
  return new Uint8Array(await answer.arrayBuffer())
}

function carOf (blocks: Block[]): RequestInit {
  const body = writeCar(blocks.slice(0, 1).map((one) => one.cid), blocks)
  return { method: 'POST', headers: { 'Content-Type': 'application/vnd.ipld.car' }, body }
}

/** The offsets of chunks that `Culm-Ranges: 0-917503, …/SIZE` names. */
function chunksOf (header: string | null): Set<number> {
  const chunks = new Set<number>()
  for (const [, first, last] of (header ?? '').matchAll(/(\d+)-(\d+)/g)) {
    for (let at = Number(first); at <= Number(last); at += CHUNK) chunks.add(at)
  }
  return chunks
}
