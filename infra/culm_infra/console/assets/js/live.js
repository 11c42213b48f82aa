/**
 * The overview as the server sends it. A stream that ends or falls silent is opened again, after one second at
 * first and ten at most; meanwhile the page says since when it is not live.
 */

import { overview } from "./api.js";

const SILENCE_MS = 8_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 10_000;

export class Live {
  /** `onDocument(document)`, `onState({live, since_ms})`, `onUnauthorized()`. */
  constructor({ onDocument, onState, onUnauthorized }) {
    this._callbacks = { onDocument, onState, onUnauthorized };
    this._source = null;
    this._timer = 0;
    this._wait_ms = FIRST_WAIT_MS;
    this._received_ms = 0;
    this._lost_ms = 0;
  }

  /** Open the stream; one that is open is closed first. */
  start() {
    this._close();
    const source = new EventSource("/api/events");
    this._source = source;
    source.addEventListener("overview", (event) => this._on_event(event));
    source.addEventListener("error", () => this._on_lost());
    this._watch();
  }

  stop() {
    this._close();
  }

  _on_event(event) {
    let document_;
    try {
      document_ = JSON.parse(event.data);
    } catch {
      return;
    }
    this._wait_ms = FIRST_WAIT_MS;
    this._received_ms = Date.now();
    this._lost_ms = 0;
    this._watch();
    this._callbacks.onState({ live: true, since_ms: this._received_ms });
    this._callbacks.onDocument(document_);
  }

  _watch() {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._on_lost(), SILENCE_MS);
  }

  async _on_lost() {
    this._close();
    this._lost_ms ||= this._received_ms || Date.now();
    const wait_ms = this._wait_ms;
    this._wait_ms = Math.min(LONGEST_WAIT_MS, wait_ms * 2);
    const source = (this._source = {});
    this._callbacks.onState({ live: false, since_ms: this._lost_ms });
    try {
      // The stream does not say why it ended; the answer to a plain request does.
      const document_ = await overview(AbortSignal.timeout(SILENCE_MS));
      if (this._source !== source) return;
      this._callbacks.onDocument(document_);
    } catch (error) {
      if (this._source !== source) return;
      if (error.status === 401) {
        this._callbacks.onUnauthorized();
        return;
      }
    }
    this._timer = setTimeout(() => this.start(), wait_ms);
  }

  _close() {
    clearTimeout(this._timer);
    if (this._source instanceof EventSource) this._source.close();
    this._source = null;
  }
}
