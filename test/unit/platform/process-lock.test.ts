import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { acquireProcessLock, isProcessAlive, processStartTime } from "../../../services/platform/process-lock.ts";

let folder: string;
let path: string;
const children: ChildProcess[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "palomar-lock-"));
  path = join(folder, "palomar.lock");
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await rm(folder, { recursive: true, force: true });
});

async function startProcess(): Promise<number> {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
  children.push(child);
  await new Promise((resolve) => child.once("spawn", resolve));
  return child.pid!;
}

async function startAndKillProcess(): Promise<number> {
  const pid = await startProcess();
  const child = children.at(-1)!;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
  return pid;
}

async function acquired(): Promise<{ release(): Promise<void> }> {
  const outcome = await acquireProcessLock(path);
  if (!outcome.ok) throw new Error(`held by ${outcome.error.pid}`);
  return outcome.value;
}

test("a free lock is taken, refused to the next with the holder's process id, and free again after its release", async () => {
  const lock = await acquired();
  expect(await acquireProcessLock(path)).toEqual({ ok: false, error: { pid: process.pid } });
  await lock.release();
  await (await acquired()).release();
  expect(await readdir(folder)).toEqual([]);
});

test("another living process keeps its lock", async () => {
  const pid = await startProcess();
  await writeFile(path, `${pid} ${await processStartTime(pid)}\n`);
  expect(await acquireProcessLock(path)).toEqual({ ok: false, error: { pid } });
});

test("the lock of a killed process is taken over", async () => {
  const pid = await startAndKillProcess();
  await writeFile(path, `${pid} some-boot:1\n`);
  await acquired();
  expect(await readFile(path, "utf8")).toBe(`${process.pid} ${await processStartTime(process.pid)}\n`);
  expect(await readdir(folder)).toEqual(["palomar.lock"]);
});

test("a process that got a dead holder's id does not keep its lock", async () => {
  const pid = await startProcess();
  await writeFile(path, `${pid} ${await processStartTime(process.pid)}\n`);
  await acquired();
});

test.each(["", "garbage", "12", "0 x\n", "-1 x\n", "1e3 x\n"])(
  "a file that no holder wrote (%j) is taken over",
  async (content) => {
    await writeFile(path, content);
    await acquired();
  },
);

test("of many that find a dead holder at the same moment, one takes the lock", async () => {
  const pid = await startAndKillProcess();
  for (let round = 0; round < 20; round++) {
    await writeFile(path, `${pid} round-${round}\n`);
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => acquireProcessLock(path)));
    const winners = outcomes.filter((outcome) => outcome.ok);
    expect(winners).toHaveLength(1);
    await winners[0]!.value.release();
    expect(await readdir(folder)).toEqual([]);
  }
});

test("a take-over that was itself killed half-way does not stand in the way", async () => {
  const pid = await startAndKillProcess();
  await writeFile(path, `${pid} a\n`);
  await (await acquired()).release();
  // The guard's name depends on what was found; take it as a dead process would have left it.
  await writeFile(path, `${pid} b\n`);
  const digest = createHash("sha256").update(`${pid} b\n`).digest("hex").slice(0, 16);
  await writeFile(`${path}.takeover-${digest}`, `${pid} a\n`);
  await acquired();
  expect(await readdir(folder)).toEqual(["palomar.lock"]);
});

test("a lock that was taken over is not removed by the release of its former holder", async () => {
  const lock = await acquired();
  const pid = await startProcess();
  const others = `${pid} ${await processStartTime(pid)}\n`;
  await writeFile(path, others);
  await lock.release();
  expect(await readFile(path, "utf8")).toBe(others);
});

test("a folder that is not there is made, for this user alone", async () => {
  expect((await acquireProcessLock(join(folder, "absent", "palomar.lock"))).ok).toBe(true);
  expect((await stat(join(folder, "absent"))).mode & 0o777).toBe(0o700);
});

test("a folder that cannot be made is an error, not a refusal", async () => {
  await writeFile(path, "");
  await expect(acquireProcessLock(join(path, "palomar.lock"))).rejects.toMatchObject({ code: "EEXIST" });
});

test("start times tell processes apart, and end with them", async () => {
  const [first, second] = [await startProcess(), await startProcess()];
  expect(await processStartTime(first)).toBe(await processStartTime(first));
  expect(await processStartTime(first)).not.toBe(await processStartTime(process.pid));
  expect(await isProcessAlive(second)).toBe(true);
  expect(await isProcessAlive(await startAndKillProcess())).toBe(false);
});
