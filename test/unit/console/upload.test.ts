import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { receiveUpload } from "../../../services/console/upload.ts";
import { BROKEN_OFF } from "../../../services/platform/http/request-body.ts";

const MOST_OCTETS = 10;

function receive(...chunks: string[]) {
  const folder = mkdtempSync(join(tmpdir(), "palomar-upload-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const incoming = Readable.from(chunks.map((chunk) => Buffer.from(chunk)));
  return { incoming, received: receiveUpload(incoming, folder, MOST_OCTETS) };
}

test("an upload of the most octets is kept as it came", async () => {
  const received = await receive("01234", "56789").received;
  if (!received.ok) throw new Error(received.error.kind);
  expect(received.value.octets).toBe(MOST_OCTETS);
  expect(await text(received.value.read())).toBe("0123456789");
});

test("one octet more is refused, and the rest is read: else the connection would not go on", async () => {
  const { incoming, received } = receive("0123456789", "a", ...Array.from({ length: 100 }, () => "more"));
  expect(await received).toEqual({ ok: false, error: { kind: "too-large" } });
  expect(incoming.readableEnded).toBe(true);
});

test("one that breaks off in the middle is refused, as nothing of ours has failed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "palomar-upload-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const incoming = new PassThrough();
  incoming.on("error", () => {});
  const received = receiveUpload(incoming, folder, MOST_OCTETS);
  incoming.write("0123");
  setImmediate(() => incoming.destroy(Object.assign(new Error("aborted"), { code: "ECONNRESET" })));
  expect(await received).toEqual(BROKEN_OFF);
});
