import assert from "node:assert/strict";
import { test } from "node:test";
import { RestartQueue } from "../src/core/restartQueue";

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test("wishes of one moment are one restart", async () => {
  let runs = 0;
  const queue = new RestartQueue(async () => void runs++, 5);
  await Promise.all([queue.request(), queue.request(), queue.request()]);
  assert.equal(runs, 1);
});

test("restarts never overlap, and at most one waits", async () => {
  let active = 0;
  let most = 0;
  let runs = 0;
  const queue = new RestartQueue(async () => {
    most = Math.max(most, ++active);
    runs++;
    await sleep(20);
    active--;
  }, 1);
  const first = queue.request();
  await sleep(8);
  await Promise.all([first, queue.request(), queue.request(), queue.request()]);
  assert.equal(most, 1);
  assert.equal(runs, 2);
});

test("a restart that fails does not block the next", async () => {
  let runs = 0;
  const queue = new RestartQueue(async () => {
    if (++runs === 1) throw new Error("no server");
  }, 1);
  await queue.request();
  await queue.request();
  assert.equal(runs, 2);
});
