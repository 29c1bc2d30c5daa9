// A client in JavaScript, for Node 20 or later, without packages. Written from docs/wire-format.md.
// It reports to tasks of shares, and with helpers, whose KEM is X25519:
// `ikos task new --kem x25519`.
//
//     node client.mjs task.json token report.json 3
//
// sends the value 3 as the report of the client whose secret is in the file `token`. The report is
// kept in `report.json` before any of it is sent: call it again to go on with the same report, if
// some parties did not answer. Options: --window 2; --max-epsilon 1, --max-delta 1e-8: the least
// privacy to accept; --hash: the task's, from somebody who is trusted. NODE_EXTRA_CA_CERTS names a
// file of authorities to trust besides the system's.

import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";

const VERSION = "ikos-parties-3";
const ENVELOPE = Buffer.from("ikos-parties 3 envelope");
const SEED = Buffer.from("ikos-parties 3 seed");
const KEYSTREAM = Buffer.from("ikos helpers 1");
const CHUNK_BYTES = 1 << 20;
const TOKEN = Buffer.from("ikos-parties 3 token");
const SETTLE_MS = 100; // from the call to the first request, longer than drawing takes, and as much
const DRAW_MS = 30; // more for each coordinate: the time of drawing depends on the noise
const ANSWER_MS = 60_000;
const AGAIN = new Set([408, 429, 500, 502, 503, 504, 507]);

const sha256 = (data) => crypto.createHash("sha256").update(data).digest();
const hmac = (key, data) => crypto.createHmac("sha256", key).update(data).digest();
const KINDS = ["shares", "helpers"];

const printable = (text) => text.slice(0, 300).replace(/[^ -~]/g, "?");
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function bytesOf(number, width) {
  return Buffer.from(number.toString(16).padStart(2 * width, "0"), "hex");
}

export const u32 = (number) => bytesOf(number, 4);

// Rationals: pairs of a numerator and a positive denominator, which need no lowest terms

function ratio(text) {
  const [a, b = "1"] = text.split("/");
  return [BigInt(a), BigInt(b)];
}

function rational(x) {
  if (!Number.isFinite(x)) throw new RangeError("values must be finite numbers");
  let below = 1n;
  for (; !Number.isInteger(x); x *= 2) below *= 2n; // exact: every double is a binary fraction
  return [BigInt(x), below];
}

function hexadecimal(text) {
  const found = /^(-?)0x([0-9a-f]+)(?:\.([0-9a-f]*))?p([+-]\d+)$/i.exec(text);
  const [, sign, whole, part = "", exponent] = found;
  const power = BigInt(exponent) - 4n * BigInt(part.length);
  const digits = BigInt(`0x${whole}${part}`) * (sign ? -1n : 1n);
  return power < 0n ? [digits, 2n ** -power] : [digits * 2n ** power, 1n];
}

const minus = ([a, b], [c, d]) => [a * d - c * b, b * d];
const less = (x, y) => minus(x, y)[0] < 0n;
export const mod = (a, q) => ((a % q) + q) % q;

// The task

export function readTask(text, kinds = KINDS) {
  const canonical = text.trim();
  const given = JSON.parse(canonical);
  if (given.version !== VERSION) throw new Error(`the task must be of version ${VERSION}`);
  if (given.kem !== "x25519") throw new Error(`Node 20 does not have ${given.kem}`);
  const { kind, helpers, relays, block_length } = given.transport;
  if (!kinds.includes(kind)) throw new Error(`the task takes ${kind}`);
  const { domain } = given;
  const sum = domain.sizes?.reduce((all, size) => all + size, 0);
  const dimension = domain.kind === "number" ? 1 : (sum ?? domain.dimension);
  const q = BigInt(given.modulus);
  const bits = (q - 1n).toString(2).length;
  const width = Math.ceil(bits / 8);
  // one for each party: shares, or what is left for the analyzer of the vectors of seeds
  const adders = helpers ?? relays;
  const messages = adders ? adders + 1 : given.transport.messages;
  const blocks = [];
  const length = adders ? dimension : block_length;
  for (let left = dimension; left > 0; left -= length) blocks.push(Math.min(left, length));
  const id = sha256(canonical);
  const hash = id.toString("base64url");
  return { ...given, kind, id, hash, dimension, q, bits, width, blocks, messages };
}

export const windowPath = (task, window) => `/tasks/${task.hash}/windows/${window}`;

// Values

function ends({ kind, lower, upper, radius }) {
  if (kind === "categories") return [[0n, 1n], [1n, 1n]];
  if (kind !== "ball") return [hexadecimal(lower), hexadecimal(upper)];
  const [a, b] = hexadecimal(radius);
  const [R, below] = rational((Number(a) / Number(b)) * 1.000000002); // an exact quotient
  return [[-R, below], [R, below]];
}

/** The coordinates of a value, each in steps, as rationals in [0, p]. */
export function steps(task, value) {
  const { domain, labels, precision, dimension } = task;
  let given = Array.isArray(value) ? value : [value];
  if (domain.kind === "categories" && typeof value === "string") {
    given = labels.map((label) => (label === value ? 1 : 0));
  }
  const x = given.map(rational);
  if (x.length !== dimension) throw new RangeError(`a value must have ${dimension} coordinates`);
  const [low, high] = ends(domain);
  if (x.some((one) => less(one, low) || less(high, one))) {
    throw new RangeError("the value must be within the bounds of the task");
  }
  if (task.integers && x.some(([a, b]) => a % b)) throw new RangeError("values must be integers");
  if (domain.kind === "ball") {
    const square = x.reduce(([a, b], [c, d]) => [a * d * d + c * c * b, b * d * d], [0n, 1n]);
    const [r, below] = hexadecimal(domain.radius);
    if (less([r * r, below * below], square)) throw new RangeError("the norm is above the radius");
  }
  let first = 0;
  for (const size of domain.sizes ?? []) {
    const ones = given.slice(first, (first += size)).filter((one) => one === 1);
    if (ones.length !== 1) throw new RangeError("one category of each question must be chosen");
  }
  const [span, below] = minus(high, low);
  return x.map((one) => {
    const [a, b] = minus(one, low);
    return [a * below * BigInt(precision), b * span];
  });
}

// Randomness: all draws are exact, from the bytes of a function

export class Draws {
  constructor(random = crypto.randomBytes) {
    this.random = random;
  }

  below(k) {
    const bits = k === 1n ? 0 : (k - 1n).toString(2).length;
    for (;;) {
      const bytes = this.random(Math.ceil(bits / 8)).reverse(); // little-endian
      const drawn = BigInt.asUintN(bits, BigInt(`0x0${bytes.toString("hex")}`));
      if (drawn < k) return drawn;
    }
  }

  /** A coin of probability e^(-u/v), u <= v. */
  coinExp(u, v) {
    let j = 1n;
    while (this.below(v * j) < u) j += 1n;
    return j % 2n === 1n;
  }

  geometric([a, b]) {
    let [low, high] = [this.below(b), 0n];
    while (!this.coinExp(low, b)) low = this.below(b);
    while (this.coinExp(1n, 1n)) high += 1n;
    return (low + b * high) / a;
  }

  polya(n, rate) {
    let sum = 0n;
    for (let left = this.geometric(rate); left > 0n; ) {
      const cycle = 1n + this.below(left);
      if (this.below(n) === 0n) sum += cycle;
      left -= cycle;
    }
    return sum;
  }

  /** By rejection from geometric tails on both sides of the mode. */
  poisson([a, b]) {
    const mode = a / b;
    let s = 1n;
    while (s * s * b <= a) s += 1n;
    for (;;) {
      const right = this.below(2n) === 1n;
      let [k, u, v] = right ? [mode, 1n, 3n] : [mode - 1n, mode * b, 3n * a];
      while (this.below(s + 1n) < s) {
        u *= (right ? a : k * b) * (s + 1n);
        k += right ? 1n : -1n;
        v *= (right ? k * b : a) * s;
      }
      if (this.below(v) < u) return k;
    }
  }

  noise([kind, parameter], clients) {
    const [n, [a, b]] = [BigInt(clients), ratio(parameter)];
    if (kind === "laplace") return this.polya(n, [a, b]) - this.polya(n, [a, b]);
    if (kind === "skellam") return this.poisson([a, 2n * n * b]) - this.poisson([a, 2n * n * b]);
    if (kind === "uniform") return this.below(a);
    throw new Error(`noise of the unknown kind ${kind}`);
  }

  /** Rounded to one of its neighbours: up with the probability of its fraction. */
  rounded([a, b]) {
    return a / b + (this.below(b) < a % b ? 1n : 0n);
  }
}

/** The value as a client adds it up: rounded steps and its noise, if any, for each coordinate. */
export function noisy(task, value, draws) {
  const exact = steps(task, value); // refused before anything is drawn
  const users = task.transport.noise !== "parties";
  const noise = () => (users ? draws.noise(task.noise, task.min_honest) : 0n);
  return exact.map((t) => draws.rounded(t) + noise());
}

/** m vectors that add up to y modulo q, uniform but for that. */
export function split(task, y, draws) {
  const rest = y.map((one) => mod(one, task.q));
  const uniform = () => rest.map(() => draws.below(task.q));
  const shares = Array.from({ length: task.messages - 1 }, uniform);
  for (const share of shares) share.forEach((one, i) => (rest[i] = mod(rest[i] - one, task.q)));
  return [...shares, rest];
}

// Envelopes: HPKE in base mode, with X25519, HKDF-SHA256 and AES-128-GCM (RFC 9180)

const KEM = Buffer.from("KEM\x00\x20", "latin1");
const SUITE = Buffer.from("HPKE\x00\x20\x00\x01\x00\x01", "latin1");
const PREFIX = Buffer.from("302e020100300506032b656e04220420", "hex"); // a private key in PKCS #8

const extract = (suite, salt, label, key) =>
  hmac(salt, Buffer.concat([Buffer.from("HPKE-v1"), suite, Buffer.from(label), key]));

function expand(suite, key, label, info, length) {
  const size = Buffer.from([0, length]);
  const text = Buffer.concat([size, Buffer.from("HPKE-v1"), suite, Buffer.from(label), info]);
  return hmac(key, Buffer.concat([text, Buffer.from([1])])).subarray(0, length); // one round
}

export const x25519Key = (raw) =>
  crypto.createPrivateKey({ key: Buffer.concat([PREFIX, raw]), format: "der", type: "pkcs8" });

export function seal(publicKey, info, plaintext, ephemeral) {
  const jwk = { kty: "OKP", crv: "X25519", x: publicKey.toString("base64url") };
  const theirs = crypto.createPublicKey({ key: jwk, format: "jwk" });
  // not generateKeyPairSync: in Node 20 its key can hang in export when garbage is collected
  const own = ephemeral ?? x25519Key(crypto.randomBytes(32));
  const enc = Buffer.from(crypto.createPublicKey(own).export({ format: "jwk" }).x, "base64url");
  const dh = crypto.diffieHellman({ privateKey: own, publicKey: theirs });
  const none = Buffer.alloc(0);
  const prk = extract(KEM, none, "eae_prk", dh);
  const shared = expand(KEM, prk, "shared_secret", Buffer.concat([enc, publicKey]), 32);
  const hash = (label, data) => extract(SUITE, none, label, data);
  const bound = [hash("psk_id_hash", none), hash("info_hash", info)];
  const context = Buffer.concat([Buffer.from([0]), ...bound]);
  const secret = extract(SUITE, shared, "secret", none);
  const key = expand(SUITE, secret, "key", context, 16);
  const nonce = expand(SUITE, secret, "base_nonce", context, 12);
  const cipher = crypto.createCipheriv("aes-128-gcm", key, nonce);
  return Buffer.concat([enc, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

export const envelopeInfo = (task, window, shuffler, block) =>
  Buffer.concat([ENVELOPE, task.id, u32(window), u32(shuffler), u32(block)]);

// Seeds

export const boundTo = (task, window, party, id) =>
  Buffer.concat([task.id, u32(window), u32(party), id]);

export const seedInfo = (task, window, helper, id) =>
  Buffer.concat([SEED, boundTo(task, window, helper, id)]);

/** The vector that a seed stands for. */
export function expanded(task, window, helper, id, seed) {
  const word = 2 ** Math.ceil(Math.log2(task.width)); // bytes
  const size = task.dimension * word;
  const bound = boundTo(task, window, helper, id);
  const info = Buffer.concat([KEYSTREAM, Buffer.from(task.parameters, "hex"), bound]);
  const chunks = [];
  for (let first = 0; first < size; first += CHUNK_BYTES) {
    const text = Buffer.concat([info, u32(chunks.length), Buffer.from([1])]);
    const key = crypto.createHmac("sha512", seed).update(text).digest();
    const stream = crypto.createCipheriv("aes-256-ctr", key.subarray(0, 32), key.subarray(32, 48));
    chunks.push(stream.update(Buffer.alloc(Math.min(CHUNK_BYTES, size - first))));
  }
  const words = Buffer.concat(chunks);
  return Array.from({ length: task.dimension }, (_, i) => {
    const one = words.subarray(i * word, (i + 1) * word).reverse().toString("hex");
    return BigInt.asUintN(task.bits, BigInt(`0x${one}`));
  });
}

/** Elements of so many bits each, one after the other from the lowest bit of the first byte on. */
export function packed(elements, bits) {
  const bytes = [];
  let [held, count] = [0n, 0n];
  for (const element of elements) {
    held |= element << count;
    for (count += BigInt(bits); count >= 8n; count -= 8n) {
      bytes.push(Number(held & 255n));
      held >>= 8n;
    }
  }
  if (count > 0n) bytes.push(Number(held));
  return Buffer.from(bytes);
}

/** The parts of a report with helpers: what is left of y, and an envelope for each helper. */
export function helperParts(task, window, y, id, seeds, keys = []) {
  const rest = y.map((one) => mod(one, task.q));
  for (const [column, seed] of seeds.entries()) {
    const vector = expanded(task, window, column + 1, id, seed);
    vector.forEach((one, i) => (rest[i] = mod(rest[i] - one, task.q)));
  }
  return [packed(rest, task.bits), ...sealedTo(task, window, id, seeds, seedInfo, keys)];
}

/** An envelope of a secret for each helper or relay. */
export function sealedTo(task, window, id, secrets, infoOf, keys = []) {
  const number = Math.floor((window * task.public_keys.length) / secrets.length / task.windows);
  return secrets.map((secret, column) => {
    const text = task.public_keys[number * secrets.length + column];
    const info = infoOf(task, window, column + 1, id);
    return seal(Buffer.from(text, "base64url"), info, secret, keys[column]);
  });
}

// Reports and requests

/** The parts of a report of shares, for each party; `keys` fixes ephemeral keys. */
export function partsOf(task, window, shares, keys = []) {
  const number = Math.floor((window * task.public_keys.length) / task.windows);
  const publicKey = Buffer.from(task.public_keys[number], "base64url");
  const written = shares.map((share) => share.map((one) => bytesOf(one, task.width)));
  const clear = written.pop();
  const sealed = written.map((share, column) => {
    let first = 0;
    return task.blocks.map((length, block) => {
      const info = envelopeInfo(task, window, column + 1, block);
      const plaintext = Buffer.concat(share.slice(first, (first += length)));
      return seal(publicKey, info, plaintext, keys[column]?.[block]);
    });
  });
  return [clear, ...sealed].map((one) => Buffer.concat(one));
}

export function makeReport(task, window, value) {
  const [draws, id] = [new Draws(), crypto.randomBytes(16)];
  const y = noisy(task, value, draws);
  if (task.kind === "shares") {
    return { id, parts: partsOf(task, window, split(task, y, draws)) };
  }
  const seeds = Array.from({ length: task.messages - 1 }, () => crypto.randomBytes(32));
  return { id, parts: helperParts(task, window, y, id, seeds) };
}

export function requestOf(task, window, secret, report, party) {
  const address = party ? task.shufflers[party - 1] : task.analyzer;
  const token = hmac(secret, Buffer.concat([TOKEN, task.id, u32(party)]));
  const body = report.parts[party];
  return {
    url: `${address}${windowPath(task, window)}/reports/${report.id.toString("base64url")}`,
    method: "PUT",
    headers: {
      Authorization: `Bearer ${token.toString("base64url")}`,
      "Content-Digest": `sha-256=:${sha256(body).toString("base64")}:`,
      "Content-Type": "application/octet-stream",
    },
    body,
  };
}

async function ask({ url, ...request }) {
  const signal = AbortSignal.timeout(ANSWER_MS);
  const answer = await fetch(url, { ...request, signal, redirect: "error" });
  return { status: answer.status, text: await answer.text() };
}

/** Send all parts, in a random order, until all parties have theirs. */
export async function send(task, window, secret, report, patience = 60) {
  const until = Date.now() + 1000 * patience;
  let waiting = [];
  for (let party = 0; party < task.messages; party += 1) {
    waiting.splice(crypto.randomInt(party + 1), 0, party); // at a uniform place: a uniform order
  }
  for (let pause = 200; ; pause = Math.min(2 * pause, 5000)) {
    const behind = [];
    for (const party of waiting) {
      const answer = await ask(requestOf(task, window, secret, report, party)).catch(() => null);
      if (!answer || AGAIN.has(answer.status) || (answer.status < 300 && answer.text)) {
        behind.push(party);
      } else if (answer.status !== 200 && answer.status !== 201) {
        throw new Error(`party ${party} refuses: ${answer.status} ${printable(answer.text)}`);
      }
    }
    if (!behind.length) return;
    waiting = behind;
    if (Date.now() > until) throw new Error(`no answer of parties ${waiting}: call again to go on`);
    await sleep(pause * (0.5 + Math.random()));
  }
}

export async function openWindow(task) {
  if (task.windows === 1) return 0;
  const { status, text } = await ask({ url: `${task.analyzer}/tasks/${task.hash}`, method: "GET" });
  const open = status === 200 ? JSON.parse(text).open : null;
  if (open === null) throw new Error("no window of the task is open");
  return open;
}

/** The report kept in a file, made and kept first if there is none. */
function kept(file, task, window, value, make) {
  if (!fs.existsSync(file)) {
    const { id, parts } = make(task, window, value);
    const [number, ...texts] = [id, ...parts].map((one) => one.toString("base64url"));
    const text = JSON.stringify({ window: windowPath(task, window), id: number, parts: texts });
    fs.writeFileSync(file, text, { mode: 0o600, flag: "wx", flush: true }); // and no second one
    const folder = fs.openSync(path.dirname(path.resolve(file)), "r");
    fs.fsyncSync(folder);
    fs.closeSync(folder);
  }
  const found = JSON.parse(fs.readFileSync(file, "ascii"));
  if (found.window !== windowPath(task, window)) throw new Error(`${file} is of another window`);
  const decoded = (text) => Buffer.from(text, "base64url");
  return { id: decoded(found.id), parts: found.parts.map(decoded) };
}

export async function main(make = makeReport, kinds = KINDS) {
  const option = { type: "string" };
  const options = { window: option, hash: option, "max-epsilon": option, "max-delta": option };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const [taskFile, tokenFile, reportFile, value] = positionals;
  const task = readTask(fs.readFileSync(taskFile, "ascii"), kinds);
  if (values.hash && values.hash !== task.hash) throw new Error(`the task's hash is ${task.hash}`);
  for (const name of ["epsilon", "delta"]) {
    const most = values[`max-${name}`];
    if (most && less(rational(Number(most)), ratio(task[name]))) {
      throw new Error(`the task's ${name} is ${task[name]}`);
    }
  }
  const secret = Buffer.from(fs.readFileSync(tokenFile, "ascii").trim(), "base64url");
  const window = values.window ? Number(values.window) : await openWindow(task);
  const begin = Date.now();
  const given = task.labels.includes(value) ? value : JSON.parse(value);
  const report = kept(reportFile, task, window, given, make);
  await sleep(begin + SETTLE_MS + DRAW_MS * task.dimension - Date.now());
  await send(task, window, secret, report);
  console.log(`All ${task.messages} parties have the report.`);
}

/** Run a program, if it was called, and not imported. */
export async function run(url, program) {
  if (url !== pathToFileURL(process.argv[1] ?? "").href) return;
  await program().catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}

await run(import.meta.url, main);
