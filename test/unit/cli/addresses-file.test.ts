import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AddressesFile } from "../../../services/cli/addresses-file.ts";
import { withProcessLock } from "../../../services/platform/process-lock.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "palomar-addresses-"));
  path = join(folder, "addresses.json");
});
afterEach(() => rmSync(folder, { recursive: true }));

test("of two stacks in one folder, the one that stops takes away its own addresses alone", async () => {
  const [first, second] = [new AddressesFile(folder), new AddressesFile(folder)];
  await first.write({ mail_api: "http://127.0.0.1:8025", metrics: "http://127.0.0.1:9464" }, false);
  await second.write({ dns_api: "http://127.0.0.1:8053", metrics: "http://127.0.0.1:9465" }, false);
  await first.remove();
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({
    mail_api: null,
    dns_api: "http://127.0.0.1:8053",
    metrics: "http://127.0.0.1:9465",
  });
  await second.remove();
  expect(existsSync(path)).toBe(false);
});

test("of stacks that start and stop at once none writes over what another has read", async () => {
  const file = new AddressesFile(folder);
  const others = (addresses: object) => writeFileSync(path, JSON.stringify(addresses));
  /** While another stack is at the file, whose addresses are these when it has ended. */
  const beside = async (addresses: object, work: () => unknown) => {
    let ends: unknown;
    await withProcessLock(`${path}.lock`, async () => {
      others({});
      ends = work();
      await sleep(100);
      others(addresses);
    });
    await ends;
  };
  await beside({ dns_api: "http://127.0.0.1:8053" }, () => file.write({ mail_api: "http://127.0.0.1:8025" }, false));
  const both = { mail_api: "http://127.0.0.1:8025", dns_api: "http://127.0.0.1:8053" };
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject(both);
  await beside(both, () => file.remove());
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({ mail_api: null, dns_api: "http://127.0.0.1:8053" });
  expect(readdirSync(folder)).toEqual(["addresses.json"]);
});
