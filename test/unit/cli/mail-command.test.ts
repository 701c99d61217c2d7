import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { loadConfig } from "../../../services/platform/config/config.ts";
import { operatorOf } from "../../support/operator.ts";
import { aggregateXml, gzipped, reportMessage } from "../../support/sender-reports.ts";
import { makeDataDir, removeDataDir } from "../../support/stack.ts";

const dataDir = makeDataDir();
afterAll(() => removeDataDir(dataDir));

/** What a command says of a file. */
function askAbout(content: string | Buffer, ...command: readonly string[]) {
  const file = join(dataDir, "message.eml");
  writeFileSync(file, content);
  const config = loadConfig({ PALOMAR_DATA_DIR: dataDir });
  if (!config.ok) throw new Error(config.error.join());
  const context = { config: config.value } as Parameters<typeof operatorOf>[0];
  return operatorOf(context)(...command, file);
}

test.each(["", "\r\n \n"])("%j is no message to be judged", async (text) => {
  const refused = "there is no message: the input is empty";
  expect(await askAbout(text, "mail", "judge")).toMatchObject({ status: 1, refused });
});

describe("a report", () => {
  const blankLine = (xml: string) => xml.replace("<policy_published>", "\r\n\r\n<policy_published>");

  test.each([
    ["in a message", (xml: string) => reportMessage(gzipped(xml))],
    ["packed", gzipped],
    ["as it is", (xml: string) => xml],
    ["with an empty line, as a message has behind its header", blankLine],
  ])("%s is read, or refused with its own reason", async (_how, put) => {
    expect((await askAbout(put(aggregateXml()), "mail", "report")).json).toMatchObject({ reporter: "Receiver" });
    const { refused } = await askAbout(put(aggregateXml({ daysAgo: 400 })), "mail", "report");
    expect(refused).toBe("no report that counts: bad-period");
  });

  test("that a message does not have", async () => {
    const { refused } = await askAbout("Subject: Hello\r\n\r\nHello", "mail", "report");
    expect(refused).toBe("no report that counts: no-report");
  });
});
