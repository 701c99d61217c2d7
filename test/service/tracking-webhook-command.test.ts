import { Command } from "commander";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandMisused, CommandRefused } from "../../services/cli/command-errors.ts";
import { registerWebhookCommand } from "../../services/cli/commands/webhook.ts";
import type { CommandRuntime } from "../../services/cli/runtime.ts";
import { KeyRing } from "../../services/core/key-ring.ts";
import { sentence } from "../../services/core/sentences.ts";
import { loadConfig } from "../../services/platform/config/config.ts";
import { addFilter } from "../../services/store/mail/contacts/filters.ts";
import { addGroups } from "../../services/store/mail/contacts/groups.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addTestInstance } from "../support/instances.ts";

const KEY_RING = KeyRing.ofSecret("a secret for tests only");
let database: TestDatabase;
/** What the last command printed for people. */
let shown: string;

beforeAll(async () => {
  database = await createTestDatabase();
  await addTestInstance(database.db, KEY_RING, {
    name: "north",
    host: "north.test",
    key: "k",
    archive: false,
    domains: [],
  });
});
afterAll(() => database.drop());

/** Runs a command as its user would. @returns what it printed, as `--json` has it */
async function palomar(...words: string[]): Promise<unknown> {
  const config = loadConfig({});
  if (!config.ok) throw new Error(config.error.join("\n"));
  let printed: unknown;
  const runtime: CommandRuntime = {
    config: config.value,
    withDatabase: (use) => use({ db: database.db, keyRing: KEY_RING, config: config.value }),
    print: (result, text) => {
      printed = result;
      shown = String(text);
    },
    printEach: () => Promise.reject(new Error("not used")),
    note: () => {},
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
    exitWith: () => {},
  };
  const program = new Command().exitOverride();
  registerWebhookCommand(program, runtime);
  await program.parseAsync(words, { from: "user" });
  return printed;
}

test("takes no URL with a password", async () => {
  await expect(palomar("webhook", "set", "north", "https://ana:pw@hooks.example.org/")).rejects.toThrow("no password");
});

test("sets, shows, logs, replays and removes", async () => {
  const url = "https://hooks.example.org/events";
  const first = await palomar("webhook", "set", "north", "https://old.example.org/");
  expect(first).toEqual({
    name: "north",
    url: "https://old.example.org/",
    secret: expect.stringMatching(/^[\w-]{32}$/),
  });
  expect(await palomar("webhook", "set", "north", url)).toEqual({ ...(first as object), url });
  expect(await palomar("webhook", "show", "north")).toEqual({ name: "north", url, failures: 0 });
  expect(await palomar("webhook", "log", "north")).toEqual([]);
  const { instance_id } = await database.db("webhooks").first("instance_id");
  const [{ id }] = await database
    .db("webhook_batches")
    .insert({ instance_id, body: "{}", events: 1, state: "failed", give_up_at: new Date() }, ["id"]);
  expect(await palomar("webhook", "replay", "north", String(id))).toEqual({
    name: "north",
    batch: id,
    state: "waiting",
  });
  expect(await palomar("webhook", "log", "north")).toMatchObject([{ id, state: "waiting", events: 1 }]);
  const outcome = sentence("http-status", { status: 500 });
  await database.db("webhook_batches").update({ outcome: JSON.stringify(outcome), finished_at: new Date(0) });
  expect(await palomar("webhook", "log", "north")).toEqual([
    {
      ...{ id, state: "waiting", events: 1, attempts: 0, outcome },
      created: expect.stringMatching(/^\d{4}-.*Z$/),
      finished: "1970-01-01T00:00:00.000Z",
    },
  ]);
  expect(shown).toMatch(new RegExp(`^${id}\t.*Z\twaiting\t1 event\t0 attempts\t${outcome.message}$`));
  expect(await palomar("webhook", "remove", "north")).toEqual({ name: "north", removed: true });
});

test.each([
  [["set", "south", "https://hooks.example.org/"], "there is no instance south"],
  [["show", "north"], "north has no webhook"],
  [["remove", "north"], "north has no webhook"],
  [["set", "north", "https://hooks.example.org/", "--campaign", "4711"], "north has no campaign 4711"],
  [["replay", "north", "1"], "north has no batch 1"],
])("refuses %j", async (words, text) => {
  await expect(palomar("webhook", ...words)).rejects.toThrow(new CommandRefused(text));
});

test("refuses a filter that names a group which is gone", async () => {
  const { id } = await database.db("instances").first("id");
  await addFilter(database.db, id, { name: "but", condition: { not: { group: "gone" } } });
  const set = () => palomar("webhook", "set", "north", "https://hooks.example.org/", "--filter", "but");
  await expect(set()).rejects.toThrow(new CommandRefused("filtro but: grupo gone no existe"));
  await addGroups(database.db, id, ["gone"]);
  expect(await set()).toMatchObject({ name: "north" });
});

test.each([
  [["set", "north", "file:///etc/passwd"], "url: must be an http or https URL"],
  [["set", "north", "http://127.0.0.1/\r\nX: y"], "url: must be an http or https URL"],
  [["set", "north", `https://hooks.example.org/${"x".repeat(2_000)}`], "url: must be at most 2000 characters"],
  [["set", "north", "https://hooks.example.org/", "--name", "-x"], "name: must have 1 to 63 letters"],
  [["set", "north", "https://hooks.example.org/", "--event", "nada"], "nada is no event"],
  [
    ["set", "north", "https://hooks.example.org/", ...Array.from({ length: 101 }, () => ["--campaign", "1"]).flat()],
    "campaigns: must be at most 100",
  ],
  [["replay", "north", "x"], "x is no number of a batch"],
  [["replay", "north", "0"], "0 is no number of a batch"],
])("%j is no way to call it", async (words, text) => {
  const called = palomar("webhook", ...words);
  await expect(called).rejects.toBeInstanceOf(CommandMisused);
  await expect(called).rejects.toThrow(text);
});
