import assert from "node:assert/strict";
import { test } from "node:test";
import { terminalText, verdict, type RunResult, type TestResult } from "../src/core/results";

const one = (name: string, outcome: TestResult["outcome"], message: string | null = null): TestResult => ({
  name, outcome, message, durationMs: 1, calls: "1 hit", misses: [],
});
const run = (status: RunResult["status"], ...tests: TestResult[]): RunResult => ({
  ok: status === "passed", status, summary: "what pytest said", tests,
});

test("a passed test has passed", () => {
  assert.deepEqual(verdict(run("passed", one("test_a", "passed")), "test_a"), { kind: "passed" });
});

test("parametrized variants are taken together", () => {
  const result = run("failed", one("test_a[1]", "passed"), one("test_a[2]", "failed", "boom"));
  assert.deepEqual(verdict(result, "test_a"), { kind: "failed", text: "test_a[2]: boom (1 hit)" });
});

test("of a file each test has its own result", () => {
  const result = run("failed", one("test_a", "passed"), one("test_b", "failed", "boom"));
  assert.equal(verdict(result, "test_a").kind, "passed");
  assert.equal(verdict(result, "test_b").kind, "failed");
});

test("a run that ended before the test is an error with its reason", () => {
  assert.deepEqual(verdict(run("error"), "test_a"), { kind: "errored", text: "what pytest said" });
});

test("a cancelled run says nothing about the test", () => {
  assert.deepEqual(verdict(run("cancelled"), "test_a"), { kind: "cancelled" });
});

test("a terminal gets CR LF", () => {
  assert.equal(terminalText("a\nb\r\nc"), "a\r\nb\r\nc\r\n");
});
