import { expect, test } from "vitest";
import { readMessage } from "../../../../services/console/web/src/mail/sends/read-message.ts";
import { sourceText } from "../../../../services/console/web/src/mail/source-text.ts";

const message = (charset: string, body: Buffer) =>
  new Uint8Array(
    Buffer.concat([
      Buffer.from(
        `Subject: x\r\nContent-Type: text/plain; charset=${charset}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n`,
      ),
      body,
    ]),
  );

test.each(["utf8", "latin1"] as const)("a message in %s is read and shown as it was written", async (encoding) => {
  const octets = message(encoding === "utf8" ? "utf-8" : "iso-8859-1", Buffer.from("Año nuevo", encoding));
  expect((await readMessage(octets)).text?.trim()).toBe("Año nuevo");
  expect(sourceText(octets)).toContain("Año nuevo");
});
