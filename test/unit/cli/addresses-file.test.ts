import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { AddressesFile } from "../../../services/cli/addresses-file.ts";

test("of two stacks in one folder, the one that stops takes away its own addresses alone", () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-addresses-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "addresses.json");
  const [first, second] = [new AddressesFile(folder), new AddressesFile(folder)];
  first.write({ mail_api: "http://127.0.0.1:8025", metrics: "http://127.0.0.1:9464" }, false);
  second.write({ dns_api: "http://127.0.0.1:8053", metrics: "http://127.0.0.1:9465" }, false);
  first.remove();
  expect(JSON.parse(readFileSync(path, "utf8"))).toMatchObject({
    mail_api: null,
    dns_api: "http://127.0.0.1:8053",
    metrics: "http://127.0.0.1:9465",
  });
  second.remove();
  expect(existsSync(path)).toBe(false);
});
