// Compares the client in JavaScript with the vectors in tests/golden/wire.json, and prints how many
// it compared. With COUNT KIND PARAMETER CLIENTS, it prints so many reproducible draws of noise.

import assert from "node:assert/strict";
import crypto from "node:crypto";
import fs from "node:fs";
import * as client from "../../examples/client.mjs";

// its package may be absent: then the vectors of verified sums are left out
const verified = await import("../../examples/verified.mjs").catch((error) => {
  if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
});

const golden = new URL("../golden/wire.json", import.meta.url);
const vectors = JSON.parse(fs.readFileSync(golden, "utf8"));
const tasks = {};
let skipped = 0;

function lowest([a, b]) {
  let [x, y] = [a, b];
  while (y) [x, y] = [y, x % y];
  if (x < 0n) x = -x;
  return b / x === 1n ? `${a / x}` : `${a / x}/${b / x}`;
}

const CHECKS = {
  "wire task"({ name }, wanted) {
    if (name === "hybrid") return assert.throws(() => client.readTask(wanted.text), /mlkem768/);
    if (wanted.parts && /"kind":"(masks|frequencies)"/.test(wanted.text)) {
      return assert.throws(() => client.readTask(wanted.text), /takes (masks|frequencies)/);
    }
    const kinds = ["shares", "helpers", "verified"];
    const task = (tasks[name] = client.readTask(`${wanted.text}\n`, kinds));
    if (task.kind === "verified") return assert.throws(() => client.readTask(wanted.text), /takes/);
    const { hash, width, blocks } = task;
    const zeros = () => Array(task.dimension).fill(0n);
    const shares = Array.from({ length: task.messages }, zeros);
    const seeds = shares.slice(1).map(() => Buffer.alloc(32));
    const made =
      task.kind === "shares"
        ? client.partsOf(task, 0, shares)
        : client.helperParts(task, 0, zeros(), Buffer.alloc(16), seeds);
    const parts = made.map((part) => part.length);
    const opens = Date.parse(task.opens) / 1000;
    const open = [...Array(task.windows).keys()].map((k) =>
      [k, k + 1].map((one) => opens + one * task.period),
    );
    assert.deepEqual({ text: wanted.text, hash, width, blocks, parts, open }, wanted);
  },
  "wire openings"({ name, window }, wanted) {
    if (!verified) return (skipped += 1);
    const task = tasks[name];
    const [id, fresh] = [wanted.id, wanted.fresh].map((text) => Buffer.from(text, "hex"));
    const keys = wanted.ephemeral.map((raw) => client.x25519Key(Buffer.from(raw, "hex")));
    const [y, bits] = [wanted.y, wanted.bits].map((numbers) => numbers.map(BigInt));
    const openings = wanted.openings.map((opening) => opening.map(BigInt));
    assert.deepEqual(verified.bitsOf(task, y), bits);
    const commitments = openings.map((one) => verified.commit(one).toString("hex"));
    assert.deepEqual(commitments, wanted.commitments);
    const parts = verified.verifiedParts(task, window, y, id, openings, fresh, keys);
    assert.equal(parts[0].toString("hex").includes(wanted.proof), true);
    const infos = keys.map((_, j) => verified.openingInfo(task, window, j + 1, id).toString("hex"));
    assert.deepEqual(infos, wanted.infos);
    assert.deepEqual(requestsOf(task, window, wanted, { id, parts }), wanted.requests);
    const drawn = verified.openingsOf(task, y, new client.Draws());
    const sums = y.map((_, i) => drawn.reduce((all, one) => all + one[i], 0n) % task.q);
    assert.deepEqual([sums, drawn.length], [y, task.messages]);
    const wrong = y.map((one, i) => (i ? one : one + 1000n));
    assert.throws(() => verified.bitsOf(task, wrong), /not valid/);
  },
  "wire opened"() {},
  "wire seeds"() {},
  "wire keystream"() {},
  "wire categories"() {},
  "wire steps"({ name, value }, wanted) {
    assert.deepEqual(client.steps(tasks[name], value).map(lowest), wanted);
  },
  "wire noise"({ rate, n }, [hex, wanted]) {
    let given = Buffer.from(hex, "hex");
    const draws = new client.Draws((length) => {
      const taken = Buffer.from(given.subarray(0, length));
      given = given.subarray(length);
      return taken;
    });
    const drawn = wanted.map(() => draws.noise(["laplace", `${rate}`], n));
    assert.deepEqual(drawn, wanted.map(BigInt));
    assert.equal(given.length, 0);
  },
  "wire report"({ name, window }, wanted) {
    const task = tasks[name];
    const shares = wanted.shares.map((share) => share.map(BigInt));
    const sum = shares.reduce((y, share) => y.map((one, i) => (one + share[i]) % task.q));
    assert.deepEqual(sum, wanted.y.map(BigInt));
    const keys = wanted.ephemeral.map((own) =>
      own.map((raw) => client.x25519Key(Buffer.from(raw, "hex"))),
    );
    const id = Buffer.from(wanted.id, "hex");
    const report = { id, parts: client.partsOf(task, window, shares, keys) };
    assert.deepEqual(requestsOf(task, window, wanted, report), wanted.requests);
    const infos = keys.flatMap((own, j) =>
      own.map((_, block) => client.envelopeInfo(task, window, j + 1, block).toString("hex")),
    );
    assert.deepEqual(infos, wanted.infos);
    const split = client.split(task, sum, new client.Draws());
    const again = split.reduce((y, share) => y.map((one, i) => (one + share[i]) % task.q));
    assert.deepEqual([again, split.length], [sum, task.messages]);
  },
  "wire seeds"({ name, window }, wanted) {
    const task = tasks[name];
    const [id, ...seeds] = [wanted.id, ...wanted.seeds].map((text) => Buffer.from(text, "hex"));
    const keys = wanted.ephemeral.map((raw) => client.x25519Key(Buffer.from(raw, "hex")));
    const y = wanted.y.map(BigInt);
    const vectors = seeds.map((seed, j) => client.expanded(task, window, j + 1, id, seed));
    assert.deepEqual(vectors, wanted.vectors.map((vector) => vector.map(BigInt)));
    const left = vectors.reduce(
      (rest, vector) => rest.map((one, i) => (one + task.q - vector[i]) % task.q),
      y,
    );
    assert.deepEqual(left, wanted.left.map(BigInt));
    const infos = seeds.map((_, j) => client.seedInfo(task, window, j + 1, id).toString("hex"));
    assert.deepEqual(infos, wanted.infos);
    const report = { id, parts: client.helperParts(task, window, y, id, seeds, keys) };
    assert.deepEqual(requestsOf(task, window, wanted, report), wanted.requests);
  },
};

function requestsOf(task, window, wanted, report) {
  const secret = Buffer.from(wanted.secret, "base64url");
  return wanted.requests.map((_, party) => {
    const { url, headers, body } = client.requestOf(task, window, secret, report, party);
    return { url, headers, body: body.toString("hex") };
  });
}

const [count, kind, parameter, clients] = process.argv.slice(2);
if (count) {
  const stream = crypto.createCipheriv("aes-256-ctr", Buffer.alloc(32), Buffer.alloc(16));
  const draws = new client.Draws((length) => stream.update(Buffer.alloc(length)));
  const drawn = Array.from(Array(Number(count)), () => draws.noise([kind, parameter], clients));
  console.log(`[${drawn}]`);
} else {
  for (const [operation, given, wanted] of vectors) CHECKS[operation](given, wanted);
  console.log(vectors.length - skipped);
}
