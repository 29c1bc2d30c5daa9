// A client in JavaScript for verified sums, beside client.mjs, whose options it takes. It needs one
// package: `npm install` here. Written from docs/wire-format.md.
//
//     node verified.mjs task.json token report.json 3

import crypto from "node:crypto";
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { Draws, boundTo, bytesOf, main, mod, noisy, run, sealedTo, u32 } from "./client.mjs";

const OPENING = Buffer.from("ikos-parties 3 opening");
const PROOF = Buffer.from("ikos verified sum 1: proof");
const NONCE = Buffer.from("ikos verified sum 1: nonce");

const { Point } = secp256k1;
const Q = Point.Fn.ORDER;

const scalar = (number) => bytesOf(mod(number, Q), 32);
const read = (bytes) => BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
const add = (numbers) => mod(numbers.reduce((all, one) => all + one, 0n), Q);

export function hash(label, ...parts) {
  const whole = parts.flatMap((part) => [u32(part.length), part]);
  const digest = crypto.createHash("sha512").update(Buffer.concat([label, ...whole])).digest();
  return mod(read(digest), Q);
}

const known = new Map();

/** The generator of a label, whose relation to others nobody knows. */
export function generator(label) {
  for (let counter = 0; !known.has(label); counter += 1) {
    const seed = ["ikos verified generator", u32(counter), label].map((one) => Buffer.from(one));
    const x = crypto.createHash("sha256").update(Buffer.concat(seed)).digest();
    try {
      known.set(label, Point.fromBytes(Buffer.concat([Buffer.from([2]), x])));
    } catch {
      continue; // x is that of no point
    }
  }
  return known.get(label);
}

/** The product of powers of points, as bytes. */
function product(points, exponents) {
  const powers = exponents.map((one, i) => {
    const exponent = mod(one, Q);
    return exponent ? points[i].multiply(exponent) : Point.ZERO;
  });
  return Buffer.from(powers.reduce((all, one) => all.add(one)).toBytes(true));
}

const values = (count) =>
  Array.from({ length: count }, (_, i) => (i ? generator(`value ${i}`) : Point.BASE));

/** A commitment: `opening` has the values, and the blinding factor at the end. */
export const commit = (opening) =>
  product([...values(opening.length - 1), generator("h")], opening);

function weightsOf(bound) {
  const count = bound ? bound.toString(2).length : 0;
  const powers = Array.from({ length: count }, (_, i) => 1n << BigInt(i));
  if (count) powers[count - 1] = bound - powers[count - 1] + 1n;
  return powers;
}

/** What is proved of y: the weights of its bits, and the steps of the chosen category, or 0. */
function statement(task) {
  const [steps, width] = [BigInt(task.precision), BigInt(task.noise[1])];
  const chosen = task.domain.kind === "categories";
  return { weights: weightsOf((chosen ? 0n : steps) + width - 1n), steps: chosen ? steps : 0n };
}

/** The free bits of y. */
export function bitsOf(task, y) {
  const { weights, steps } = statement(task);
  const largest = y.reduce((best, one, i) => (one > y[best] ? i : best), 0);
  const rest = y.map((one, i) => (i === largest ? one - steps : one));
  const bits = rest.flatMap((one) => {
    const own = [];
    for (let i = weights.length - 1; i >= 0; i -= 1) {
      own.unshift(one >= 1n << BigInt(i) ? 1n : 0n);
      one -= weights[i] * own[0];
    }
    if (one) throw new RangeError("the value is not valid");
    return own;
  });
  if (steps) bits.push(...y.slice(1).map((_, i) => (i === largest ? 1n : 0n)));
  return bits;
}

/** All wires for those of the free bits, with the constant times `scale`; and the forms of y. */
function wiresOf(task, free, scale) {
  const { weights, steps } = statement(task);
  const first = weights.length * task.dimension;
  const wires = steps ? [...free, scale - add(free.slice(first))] : free;
  const forms = Array.from({ length: task.dimension }, (_, i) => {
    const own = weights.map((weight, j) => weight * wires[i * weights.length + j]);
    return add(steps ? [...own, steps * wires[first + i]] : own);
  });
  return [wires, forms];
}

/** A proof that y is valid; `blinding` is that of the product of all commitments. */
export function prove(task, context, id, y, blinding, commitments, fresh) {
  const bits = bitsOf(task, y);
  const sent = Buffer.concat(commitments);
  const secret = [fresh, Buffer.from(bits.map(Number)), scalar(blinding), context, id, sent];
  const nonces = [0n, 0n, 0n, ...bits].map((_, i) => hash(NONCE, ...secret, u32(i)));
  const [rho, alpha, beta, ...a] = nonces;
  const [[b, c], [masks, forms]] = [wiresOf(task, bits, 1n), wiresOf(task, a, 0n)];
  if (c.some((form, i) => form !== y[i])) throw new RangeError("the value is not valid");
  const points = [
    generator("k"),
    ...bits.map((_, j) => generator(`bit ${j}`)),
    ...b.map((_, j) => generator(`square ${j}`)),
  ];
  const first = Buffer.concat([
    product(points, [rho, ...bits, ...masks.map((mask, j) => mask * (1n - 2n * b[j]))]),
    product(points, [alpha, ...a, ...masks.map((mask) => -mask * mask)]),
    commit([...forms, beta]),
  ]);
  const challenge = hash(PROOF, context, id, sent, first);
  const answers = bits.map((bit, j) => challenge * bit + a[j]);
  answers.push(challenge * rho + alpha, challenge * blinding + beta);
  return Buffer.concat([first, ...answers.map(scalar)]);
}

export const contextOf = (task, window) =>
  Buffer.concat([Buffer.from(task.parameters, "hex"), task.id, u32(window)]);

export const openingInfo = (task, window, relay, id) =>
  Buffer.concat([OPENING, boundTo(task, window, relay, id)]);

/** Openings of all parties, whose values add up to y. */
export function openingsOf(task, y, draws) {
  const uniform = () => [...y, 0n].map(() => draws.below(Q));
  const others = Array.from({ length: task.messages - 1 }, uniform);
  const own = y.map((one, i) => mod(one - add(others.map((opening) => opening[i])), Q));
  return [[...own, draws.below(Q)], ...others];
}

/** The parts of a report, for each party; `keys` fixes ephemeral keys. */
export function verifiedParts(task, window, y, id, openings, fresh, keys = []) {
  const commitments = openings.map(commit);
  const blinding = add(openings.map((opening) => opening.at(-1)));
  const context = contextOf(task, window);
  const proof = prove(task, context, id, y, blinding, commitments, fresh);
  const [own, ...others] = openings.map((opening) => Buffer.concat(opening.map(scalar)));
  const sealed = sealedTo(task, window, id, others, openingInfo, keys);
  return [Buffer.concat([...commitments, proof, own]), ...sealed];
}

export function makeReport(task, window, value) {
  const [draws, id, fresh] = [new Draws(), crypto.randomBytes(16), crypto.randomBytes(32)];
  const y = noisy(task, value, draws);
  const openings = openingsOf(task, y, draws);
  return { id, parts: verifiedParts(task, window, y, id, openings, fresh) };
}

await run(import.meta.url, () => main(makeReport, ["verified"]));
