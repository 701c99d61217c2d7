import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandMisused, CommandRefused } from "../../services/cli/command-errors.ts";
import { registerMessageCommand } from "../../services/cli/commands/message.ts";
import { runCommand } from "../support/command.ts";
import { addTestInstance } from "../support/instances.ts";
import { type MailStack, startMailStack } from "../support/mail-stack.ts";
import { eventually } from "../support/stack.ts";

let stack: MailStack;
let eeid: string;

beforeAll(async () => {
  stack = await startMailStack();
  const other = { name: "other", host: "other.test", key: "key-of-other", archive: false, domains: [] };
  await addTestInstance(stack.context.db, stack.context.keyRing, other);
  const answer = await stack.call("POST", "/envio/send_many_inline/", {
    ...{ campana_id: await stack.addCampaign({ asunto: "Order 4711" }), email: true, html: "<p>Hi</p>" },
    contactos: [{ email: "reject+1@example.net" }, { email: "taken@example.net" }],
  });
  eeid = answer.body.eeid;
  await eventually(
    () => palomar("message", "find", "test", "--state", "delivered"),
    ({ lines }) => lines.length === 1,
  );
  await eventually(
    () => palomar("message", "find", "test", "--state", "bounced"),
    ({ lines }) => lines.length === 1,
  );
});
afterAll(async () => {
  await stack.stop();
  expect(stack.failures).toEqual([]);
});

const palomar = (...words: string[]) => runCommand(registerMessageCommand, stack.context, words);

test("finds by what is known, so many at most, and tells the story", async () => {
  const all = await palomar("message", "find", "test", "--subject", "order 4711");
  expect(all.json).toMatchObject([{ recipient: "taken@example.net" }, { recipient: "reject+1@example.net" }]);
  expect((await palomar("message", "find", "test", "--limit", "1")).lines).toHaveLength(1);
  const searches = [
    ["--id", eeid, "--state", "bounced"],
    ["--recipient", "reject+1@example.net"],
    ["--domain", "example.net", "--reason", "userunknown"],
    ["--reply", "no such mailbox", "--from", "2020-01-01T00:00:00Z"],
  ];
  for (const search of searches) {
    const { lines, json } = await palomar("message", "find", "test", ...search);
    expect(json, search.join(" ")).toMatchObject([{ eeid, state: "bounced", recipient: "reject+1@example.net" }]);
    expect(lines[0]).toMatch(/^\d+ {2}\S+Z {2}bounced {2}reject\+1@example.net {2}"Order 4711" {2}550 5\.1\.1 /);
  }
  expect((await palomar("message", "find", "test", "--until", "2020-01-01")).lines).toEqual([]);
  const [{ id }] = (await palomar("message", "find", "test", "--id", eeid)).json.slice(-1) as { id: number }[] as [
    { id: number },
  ];
  const story = await palomar("message", "show", "test", String(id));
  expect(story.json).toMatchObject([{ id, attempt_list: [{ outcome: "bounced", code: 550, reason: "userunknown" }] }]);
  expect(story.lines.join("\n")).toMatch(
    /Z {2}accepted\n.*Z {2}attempt 1: bounced userunknown, \d+ ms, .*: 550 5\.1\.1 /,
  );
});

test.each([
  [{ stage: "starttls", tls: "" }, "no session"],
  [{ stage: "starttls", tls: "TLSv1.3" }, "TLSv1.3, certificate SELF_SIGNED_CERT_IN_CHAIN"],
  [{ stage: "rcpt", tls: "" }, "in clear"],
])("of a way that came as far as %j is told: %s", async ({ stage, tls }, told) => {
  const { db } = stack.context;
  const [{ id }] = (await palomar("message", "find", "test", "--state", "bounced")).json as [{ id: number }];
  await db("attempt_results").update({ stage });
  await db("attempt_paths").update({ tls, certificate: tls && "SELF_SIGNED_CERT_IN_CHAIN" });
  expect((await palomar("message", "show", "test", String(id))).lines.join("\n")).toContain(`, ${told}: 550 5.1.1 `);
});

test("sees no other instance's messages", async () => {
  expect((await palomar("message", "find", "other", "--id", eeid)).lines).toEqual([]);
  const [{ id }] = (await palomar("message", "find", "test")).json as { id: number }[] as [{ id: number }];
  await expect(palomar("message", "show", "other", String(id))).rejects.toThrow(`other has no message ${id}`);
});

test.each([
  ["find", "test", "--state", "lost"],
  ["find", "test", "--reason", "whatever"],
  ["find", "test", "--from", "yesterday"],
  ["find", "test", "--until", "2020-02-30"],
  ["find", "test", "--limit", "many"],
  ["find", "test", "--campaign", "x"],
  ["show", "test", "x"],
])("message %s %s %s %s is misused", async (...words) => {
  await expect(palomar("message", ...words.filter((word) => word !== undefined))).rejects.toThrow(CommandMisused);
});

test("an instance that there is not is refused", async () => {
  await expect(palomar("message", "find", "nowhere")).rejects.toThrow(CommandRefused);
});
