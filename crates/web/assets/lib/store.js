// What the server said last. A page takes what it needs with `use`; what changes is fetched again.

import { get, Failure } from "./api.js";

// While there is no stream of events, everything in sight is fetched again this often, in milliseconds.
const POLL = 5000;
// How many times as long as a request took the next one waits.
const REST = 10;

/** The resources in use, and the stream that tells which of them changed. */
export class Store {
  #entries = new Map();
  #frame = 0;
  #stream = null;
  #timer = null;
  #onChange;
  #onLogin;
  #isIdle;

  /** Calls `onChange` when something is new, and `onLogin` when the session is over. Rests while `isIdle()`. */
  constructor(onChange, onLogin, isIdle) {
    this.#onChange = onChange;
    this.#onLogin = onLogin;
    this.#isIdle = isIdle;
    this.isLive = false;
    this.failure = null;
  }

  /** Begins a page: what it does not `use` is forgotten after `end`. */
  begin() {
    this.#frame += 1;
  }

  /** What a path holds: `{value, error}`, both absent until the answer is there. */
  use(path, topic) {
    let entry = this.#entries.get(path);
    if (!entry) {
      entry = { path, topic, value: undefined, error: undefined, busy: false, stale: false, took: 0, ended: 0, timer: null };
      this.#entries.set(path, entry);
      this.#fetch(entry);
    }
    entry.frame = this.#frame;
    return entry;
  }

  /** Ends a page. */
  end() {
    for (const [path, entry] of this.#entries) {
      if (entry.frame !== this.#frame) this.#entries.delete(path);
    }
  }

  /** Fetches again what is about one of `topics`; everything, and at once, if there are none. */
  refresh(topics) {
    if (this.#isIdle()) return;
    for (const entry of this.#entries.values()) {
      if (!topics) this.#fetch(entry);
      else if (topics.includes(entry.topic)) this.#fetchSoon(entry);
    }
  }

  /** Fetches, but a long list that changes all the time only for a tenth of the time. */
  #fetchSoon(entry) {
    const wait = entry.ended + REST * entry.took - performance.now();
    if (!(wait > 0)) return this.#fetch(entry);
    entry.timer ??= setTimeout(() => {
      entry.timer = null;
      if (this.#entries.get(entry.path) === entry) this.#fetch(entry);
    }, wait);
  }

  /** Listens no more, until `listen`. */
  rest() {
    this.#stream?.close();
    this.#stream = null;
    clearTimeout(this.#timer);
    this.isLive = false;
  }

  /** Forgets everything, as after the end of a session. */
  clear() {
    this.rest();
    this.#entries.clear();
    this.failure = null;
  }

  async #fetch(entry) {
    // One request at a time; a change that is told meanwhile needs another one afterwards.
    if (entry.busy) {
      entry.stale = true;
      return;
    }
    entry.busy = true;
    const began = performance.now();
    try {
      entry.value = await get(entry.path);
      entry.error = undefined;
      this.failure = null;
    } catch (failure) {
      this.#failed(entry, failure);
    }
    entry.busy = false;
    entry.ended = performance.now();
    entry.took = entry.ended - began;
    if (entry.stale) {
      entry.stale = false;
      this.#fetch(entry);
    }
    this.#onChange();
  }

  #failed(entry, failure) {
    if (!(failure instanceof Failure)) throw failure;
    if (failure.kind === "login") {
      this.#onLogin();
    } else if (failure.kind === "offline" || failure.kind === "no-daemon") {
      // What is shown stays, and the page says that it is old.
      this.failure = failure;
    } else {
      entry.error = failure;
      entry.value = undefined;
    }
  }

  /** Listens for changes, until `rest` or `clear`. */
  listen() {
    this.rest();
    const stream = new EventSource("/v1/events");
    this.#stream = stream;
    stream.addEventListener("open", () => this.#live(true));
    stream.addEventListener("changed", (event) => {
      const { what } = JSON.parse(event.data);
      // A pool says how its last scrub ended.
      this.refresh([...what, "health", what.includes("jobs") && "pools"]);
    });
    stream.addEventListener("event", () => this.refresh(["events", "health"]));
    stream.addEventListener("error", () => {
      // A stream that was refused: the session may be over, which a request finds out.
      if (stream.readyState === EventSource.CLOSED) this.refresh();
      this.#live(false);
    });
    this.#poll();
  }

  #live(isLive) {
    if (this.isLive === isLive) return;
    this.isLive = isLive;
    if (isLive) this.refresh();
    else this.#poll();
    this.#onChange();
  }

  #poll() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.isLive || !this.#stream) return;
      // A stream that was refused does not try again by itself.
      if (this.#stream.readyState === EventSource.CLOSED) this.listen();
      this.refresh();
      this.#poll();
    }, POLL);
  }
}
