import assert from "node:assert/strict";
import { test } from "node:test";
import { RestartQueue } from "../src/core/restartQueue";

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
  let began = () => {};
  let end = () => {};
  const running = new Promise<void>((resolve) => (began = resolve));
  const released = new Promise<void>((resolve) => (end = resolve));
  const queue = new RestartQueue(async () => {
    most = Math.max(most, ++active);
    runs++;
    began();
    await released;
    active--;
  }, 1);
  const first = queue.request();
  await running;
  const later = [queue.request(), queue.request(), queue.request()];
  end();
  await Promise.all([first, ...later]);
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
