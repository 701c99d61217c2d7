import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { runPalomar } from "../support/deployment.ts";

const folder = mkdtempSync(join(tmpdir(), "palomar-problems-"));

afterAll(() => rmSync(folder, { recursive: true }));

const NO_CERT = "palomar: PALOMAR_TLS_CERT: ENOENT: no such file or directory, access '/nosuch.pem'";
const NO_KEY = "palomar: PALOMAR_TLS_KEY: ENOENT: no such file or directory, access '/nosuch.key'";
const NO_DELIVERY = "palomar: PALOMAR_DELIVERY: must be sandbox, mx or smtp://host:port";
const NO_PAIR = "palomar: PALOMAR_TLS_KEY: certificate and key go together";

test.each([
  ["start", { PALOMAR_TLS_CERT: "/nosuch.pem", PALOMAR_TLS_KEY: "/nosuch.key" }, [NO_CERT, NO_KEY]],
  [
    "start",
    { PALOMAR_TLS_CERT: "/nosuch.pem", PALOMAR_TLS_KEY: "/nosuch.key", PALOMAR_DELIVERY: "bad" },
    [NO_DELIVERY, NO_CERT, NO_KEY],
  ],
  ["migrate", { PALOMAR_TLS_CERT: "/nosuch.pem" }, [NO_PAIR, NO_CERT]],
  // What needs no certificate does not look for it.
  ["status", { PALOMAR_TLS_CERT: "/nosuch.pem" }, [NO_PAIR]],
])("palomar %s with %j tells all that is wrong", async (command, environment, problems) => {
  const { status, stderr } = await runPalomar([command], { PALOMAR_DATA_DIR: folder, ...environment });
  const lines = stderr.split("\n").filter((line) => line.includes("PALOMAR_"));
  expect({ status, lines }).toEqual({ status: 2, lines: problems });
});
