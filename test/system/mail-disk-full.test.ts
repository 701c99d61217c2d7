import { spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callApi } from "../support/api-client.ts";
import { addCampaign, runPalomar } from "../support/deployment.ts";
import { eventually, makeDataDir, removeDataDir, type StartedStack, startStack } from "../support/stack.ts";

// A disk without room: what cannot be stored is not acknowledged, and what was acknowledged is sent once there is room.
const folder = makeDataDir();
const disk = join(folder, "disk");
mkdirSync(disk);
const isMounted = spawnSync("mount", ["-t", "tmpfs", "-o", "size=400m", "tmpfs", disk]).status === 0;
const note = isMounted ? "" : " (skipped: a small file system cannot be mounted here)";
const PATIENCE_MS = 120_000;

describe.skipIf(!isMounted)(`a full disk${note}`, () => {
  const filler = join(disk, "filler");
  let stack: StartedStack;
  let campaign: number;

  beforeAll(async () => {
    stack = await startStack(join(disk, "data"));
    campaign = await addCampaign(mailApi, "news@demo.example");
  });
  afterAll(async () => {
    rmSync(filler, { force: true });
    await stack?.stop();
    spawnSync("umount", [disk]);
    removeDataDir(folder);
  });

  function mailApi(method: string, path: string, body?: unknown) {
    const { addresses, credentials } = stack;
    return callApi(method, `${addresses.mail_api}/v1${path}`, { Authorization: credentials.instance.key }, body);
  }

  /** What whoever watches sees, wherever they look. */
  async function expectFullDisk(): Promise<void> {
    const { metrics } = stack.addresses;
    const ready = async () => {
      const answer = await fetch(`${metrics}/readyz`);
      return { status: answer.status, body: await answer.json() };
    };
    const problems = ["the disk of the database is full"];
    await expect.poll(ready).toMatchObject({ status: 503, body: { problems } });
    const lines = async () => (await (await fetch(`${metrics}/metrics`)).text()).split("\n");
    const shown = ["palomar_database_up 1", "palomar_database_writable 0"];
    await expect.poll(lines).toEqual(expect.arrayContaining(shown));
    const told = async () => (await runPalomar(["status"], { PALOMAR_DATA_DIR: stack.dataDir })).stdout;
    await expect.poll(told).toContain("WRONG    the disk of the database is full\n");
  }

  const send = (name: string) =>
    mailApi("POST", "/envio/send_many_inline/", {
      campana_id: campaign,
      email: true,
      contactos: Array.from({ length: 50 }, (_, n) => ({ email: `r${n}@${name}.example.net` })),
      html: `<p>Hello</p>${"<p>Lorem ipsum dolor sit amet.</p>".repeat(5_000)}`,
    });

  test("refuses for as long as there is no room, and loses nothing that it acknowledged", async () => {
    const acknowledged: string[] = [];
    const first = await send("before");
    expect(first.status).toBe(200);
    acknowledged.push(first.body.eeid);
    fillUp(filler);

    const statuses: number[] = [];
    for (let call = 0; call < 60 && !statuses.includes(503) && !statuses.includes(500); call += 1) {
      const answer = await send(`full${call}`).catch(() => ({ status: 0, body: undefined }));
      statuses.push(answer.status);
      if (answer.status === 200) acknowledged.push(answer.body.eeid);
    }
    expect(statuses.at(-1)).toBeGreaterThanOrEqual(500);
    await expectFullDisk();

    rmSync(filler);
    const after = await eventually(
      () => send("after").catch(() => ({ status: 0, body: undefined })),
      ({ status }) => status === 200,
      PATIENCE_MS,
    );
    acknowledged.push(after.body.eeid);
    for (const eeid of acknowledged) {
      const { body } = await eventually(
        () => mailApi("GET", `/eeid_info/${eeid}`).catch(() => ({ body: undefined })),
        ({ body }) => body?.envio_efectivo?.estado === "enviado",
        PATIENCE_MS,
      );
      expect(body.envio_efectivo.contactos).toHaveLength(50);
    }
  });
});

/** Writes until the system says ENOSPC. */
function fillUp(file: string): void {
  const descriptor = openSync(file, "w");
  try {
    for (const size of [2 ** 20, 2 ** 12]) {
      try {
        for (;;) writeSync(descriptor, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      }
    }
  } finally {
    closeSync(descriptor);
  }
}
