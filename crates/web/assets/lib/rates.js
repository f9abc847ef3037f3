// How much pools do: differences of two states of the counters.

import { get, Failure } from "./api.js";

// Milliseconds between two samples, and how many are kept: five minutes.
const PERIOD = 2000;
const KEPT = 150;

/** Takes samples for as long as a page wants them. */
export class Rates {
  #timer = null;
  #before = null;
  #buckets = null;
  #isRefused = false;
  #onChange;
  #isIdle;

  /** Calls `onChange` after each sample. Rests while `isIdle()`. */
  constructor(onChange, isIdle) {
    this.#onChange = onChange;
    this.#isIdle = isIdle;
    /** Samples, the oldest first: `{time, pools: {NAME: {read, write, flush}}, latency}`. */
    this.samples = [];
    this.failure = null;
    this.hasPercentiles = false;
  }

  /** Begins, if it does not run. */
  start() {
    if (this.#timer === null) this.#take();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#before = null;
    this.#buckets = null;
  }

  async #take() {
    this.#timer = setTimeout(() => this.#take(), PERIOD);
    if (document.hidden || this.#isIdle()) return;
    try {
      const [now, page] = await Promise.all([get("/v1/io"), this.#metrics()]);
      this.failure = null;
      this.#add(performance.now(), now, page);
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      this.failure = failure;
      if (failure.kind === "permission" || failure.kind === "login") this.stop();
    }
    this.#onChange();
  }

  /** The metrics, for percentiles. A user who may not have them is not asked for again. */
  async #metrics() {
    if (this.#isRefused) return null;
    const response = await fetch("/metrics", { cache: "no-store" }).catch(() => null);
    this.#isRefused = [403, 404].includes(response?.status);
    return response?.ok ? response.text() : null;
  }

  #add(time, now, page) {
    const buckets = page && parseBuckets(page);
    if (this.#before) {
      const seconds = (time - this.#before.time) / 1000;
      this.samples.push({
        time: Date.now() / 1000,
        pools: Object.fromEntries(now.map((pool) => [pool.name, difference(pool, this.#before.pools.get(pool.name), seconds)])),
        latency: buckets && this.#buckets ? percentiles(buckets, this.#buckets) : null,
      });
      if (this.samples.length > KEPT) this.samples.shift();
    }
    this.hasPercentiles = Boolean(buckets);
    this.#before = { time, pools: new Map(now.map((pool) => [pool.name, pool])) };
    this.#buckets = buckets;
  }
}

const KINDS = ["read", "write", "flush"];

/** What the devices of a pool did in so many seconds, together and one by one. */
function difference(now, before, seconds) {
  const old = new Map(before?.devices.map((device) => [device.path, device]));
  const devices = now.devices.map((device) => {
    const was = old.get(device.path);
    const rates = KINDS.map((kind) => [kind, rateOf(device[kind], was?.[kind], seconds)]);
    return { path: device.path, ...Object.fromEntries(rates) };
  });
  const whole = KINDS.map((kind) => [kind, sum(devices.map((device) => device[kind]))]);
  return { devices, ...Object.fromEntries(whole) };
}

function rateOf(now, was, seconds) {
  // A device that was opened again counts from zero.
  if (!was || now.operations < was.operations) return { operations: 0, bytes: 0, nanos: null };
  const operations = now.operations - was.operations;
  return {
    operations: operations / seconds,
    bytes: (now.bytes - was.bytes) / seconds,
    nanos: operations ? (now.nanos - was.nanos) / operations : null,
  };
}

/** Rates together; the time of an operation is the mean of all. */
export function sum(rates) {
  const total = { operations: 0, bytes: 0, nanos: null };
  let nanos = 0;
  for (const rate of rates) {
    total.operations += rate.operations;
    total.bytes += rate.bytes;
    nanos += (rate.nanos ?? 0) * rate.operations;
  }
  if (total.operations > 0) total.nanos = nanos / total.operations;
  return total;
}

/** The buckets of the times of reads, writes and flushes, of all devices together. */
export function parseBuckets(page) {
  const found = {};
  const line = /^strongroom_device_operation_seconds_bucket\{(.*)\} (\d+)/;
  for (const text of page.split("\n")) {
    const match = line.exec(text);
    if (!match) continue;
    const op = /\bop="([^"]*)"/.exec(match[1])?.[1];
    const le = /\ble="([^"]*)"/.exec(match[1])?.[1];
    if (!op || !le) continue;
    const buckets = (found[op] ??= new Map());
    const limit = le === "+Inf" ? Infinity : Number(le);
    buckets.set(limit, (buckets.get(limit) ?? 0) + Number(match[2]));
  }
  return found;
}

/** Of each kind the times that half, 99 of 100 and 999 of 1000 operations took at most, in nanoseconds. */
export function percentiles(now, before) {
  const result = {};
  for (const op of Object.keys(now)) {
    const limits = [...now[op].keys()].sort((a, b) => a - b);
    const counts = limits.map((limit) => now[op].get(limit) - (before[op]?.get(limit) ?? 0));
    const total = counts.at(-1);
    const at = (share) => {
      const index = counts.findIndex((n) => n >= share * total);
      const limit = limits[index] === Infinity ? limits[index - 1] : limits[index];
      return limit === undefined ? null : limit * 1e9;
    };
    result[op] = total > 0 ? { p50: at(0.5), p99: at(0.99), p999: at(0.999) } : { p50: null, p99: null, p999: null };
  }
  return result;
}
