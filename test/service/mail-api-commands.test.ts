import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { CommandMisused, CommandRefused } from "../../services/cli/command-errors.ts";
import { registerBackupCommand } from "../../services/cli/commands/backup.ts";
import { registerContactCommand } from "../../services/cli/commands/contact.ts";
import { registerInstanceCommand } from "../../services/cli/commands/instance.ts";
import { registerInstanceGuardCommand } from "../../services/cli/commands/instance-guard.ts";
import { registerMailboxCommand } from "../../services/cli/commands/mailbox.ts";
import type { CommandRuntime } from "../../services/cli/runtime.ts";
import { type Config, loadConfig } from "../../services/platform/config/config.ts";
import { readRecordsAt } from "../../services/store/dns/records.ts";
import { findAnyZone } from "../../services/store/dns/zones.ts";
import { addZoneOwner, nameOf, putZoneFile } from "../support/dns-server.ts";
import { startMailApi, type TestMailApi } from "../support/mail-api.ts";
import { operatorOf } from "../support/operator.ts";

let api: TestMailApi;
let folder: string;
beforeAll(async () => {
  api = await startMailApi();
  folder = mkdtempSync(join(tmpdir(), "palomar-commands-"));
});
afterAll(async () => {
  await api.stop();
  rmSync(folder, { recursive: true });
});

interface Outcome {
  readonly json?: unknown;
  readonly refused?: string;
  readonly status: number;
}

/** Runs `palomar …` with `--json` on the test's database. */
async function palomar(...args: string[]): Promise<Outcome> {
  const config = loadConfig({}) as { value: Config };
  let json: unknown;
  let status = 0;
  const runtime: CommandRuntime = {
    config: config.value,
    withDatabase: (use) => use({ db: api.db, keyRing: api.keyRing, config: config.value }),
    print: (result, text) => {
      expect(typeof text).toBe("string");
      json = result;
    },
    printEach: () => Promise.reject(new Error("not used")),
    note: () => {},
    refuse: (text) => {
      throw new CommandRefused(text);
    },
    misused: (text) => {
      throw new CommandMisused(text);
    },
    exitWith: (given) => {
      status = given;
    },
  };
  const program = new Command("palomar")
    .option("--json")
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  registerInstanceCommand(program, runtime);
  registerInstanceGuardCommand(program, runtime);
  registerContactCommand(program, runtime);
  registerMailboxCommand(program, runtime);
  registerBackupCommand(program, runtime);
  try {
    await program.parseAsync(args, { from: "user" });
    return { json, status };
  } catch (error) {
    if (error instanceof CommandRefused) return { refused: error.message, status: 1 };
    if (error instanceof CommandMisused) return { refused: error.message, status: 2 };
    throw error;
  }
}

describe("palomar instance", () => {
  test("add makes an instance whose key the API accepts", async () => {
    const added = await palomar(
      ..."instance add west --host West.Test:8025 --domain West.Example --domain bücher.example".split(" "),
    );
    expect(added.json).toEqual({
      name: "west",
      host: "west.test",
      key: expect.stringMatching(/^\S{32,}$/),
      domains: ["west.example", "xn--bcher-kva.example"],
    });
    const { key } = added.json as { key: string };
    const version = await api.north.call("GET", "/v1/version", undefined, { Authorization: key, Host: "west.test" });
    expect(version.status).toBe(200);
  });

  test("add with a key of the operator's", async () => {
    const added = await palomar(..."instance add east --host east.test --key a-key-of-my-choice --archive".split(" "));
    expect(added.json).toEqual({ name: "east", host: "east.test", key: "a-key-of-my-choice", domains: [] });
  });

  test.each([
    ["instance add north --host other.test", "an instance of this name already exists"],
    ["instance add other --host north.test", "another instance has this host"],
    ["instance add other --host NORTH.test.", "another instance has this host"],
    ["instance add other --host other.test --key api-key-of-north", "another instance has this key"],
    ["instance add other --host other.test --key short", "key: must have at least 16 characters"],
    ["instance add other --host not/a/host", "host: not/a/host is no host name"],
    ["instance add -- other..name --host x", undefined],
    [
      "instance add other --host o.test --domain nodot",
      "domain: The domain name nodot is not valid. It should have a period.",
    ],
    ["instance add other --host o.test --time-zone Mars/Olympus", "time_zone: Mars/Olympus is no time zone"],
    ["instance key rotate nobody", "there is no instance nobody"],
    ["instance domain add north example.org", "north has example.org already"],
    ["instance dkim show nobody", "there is no instance nobody"],
    ["instance dkim show north other.example", "north has no other.example"],
    ["contact erase north nobody@example.org", "north holds nothing on nobody@example.org"],
    ["contact export north nobody@example.org", "north holds nothing on nobody@example.org"],
    ["contact import nobody /dev/null", "there is no instance nobody"],
    ["contact import north /dev", "/dev is a folder"],
    ["backup /dev", "/dev is a folder"],
    [
      "mailbox add m --host h.test --user u --password-file /dev/none",
      "/dev/none: ENOENT: no such file or directory, open '/dev/none'",
    ],
    [
      "mailbox add m --host h.test --user u --password-file /dev/null",
      "/dev/null: there is no password in its first line",
    ],
  ])("%s is refused", async (line, reason) => {
    const outcome = await palomar(...line.split(" ")).catch((error: { code: string }) => ({
      status: 2,
      refused: undefined,
      code: error.code,
    }));
    expect(outcome.refused).toBe(reason);
    expect(outcome.status).toBe(reason === undefined ? 2 : 1);
  });

  test.each([
    ["instance conversions north maybe", "maybe is neither on nor off"],
    ["instance set north --archive maybe", "maybe is neither on nor off"],
    ["instance set north --event-days 0", "0 is no number of days"],
    ["instance set north --message-days x", "x is no number of days"],
    ["instance set north --message-days 29", "unsubscribe links have to work for 30 days after the sending"],
  ])("%s is misuse", async (line, refused) => {
    expect(await palomar(...line.split(" "))).toEqual({ refused, status: 2 });
  });

  test("a limit is of a campaign that the instance has", async () => {
    const limit = (numid: number | string) =>
      palomar("instance", "limit", "south", "campaign", `${numid}`, "--hour", "5");
    expect(await limit(99_999)).toEqual({ refused: "south has no campaign 99999", status: 1 });
    const campaign = { tipo: "normal", nombre: "of north" };
    const { numid } = (await api.north.call("POST", "/v1/campania", campaign)).body;
    expect(numid).toBeGreaterThan(0);
    expect(await limit(numid)).toEqual({ refused: `south has no campaign ${numid}`, status: 1 });
    expect(await api.db("sending_limits").where({ instance_id: api.south.id })).toEqual([]);
    const own = (await api.south.call("POST", "/v1/campania", campaign)).body.numid;
    expect(await limit(own)).toMatchObject({ json: { limits: [{ scope: "campaign", subject: `${own}` }] }, status: 0 });
    expect(await palomar("instance", "limit", "south", "campaign", `${own}`, "--remove")).toMatchObject({ status: 0 });
  });

  test("key rotate with a grace lets the old key in until it ends", async () => {
    const { json } = await palomar("instance", "key", "rotate", "south", "--grace", "24h");
    const { key } = json as { key: string };
    const asSouth = (Authorization: string) => api.south.call("GET", "/v1/version", undefined, { Authorization });
    expect((await asSouth(api.south.key)).status).toBe(200);
    expect((await asSouth(key)).status).toBe(200);
    await api.db("instances").where({ name: "south" }).update({ previous_key_until: new Date() });
    expect((await asSouth(api.south.key)).status).toBe(403);
    expect((await palomar("instance", "key", "rotate", "south", "--grace", "soon")).refused).toMatch(
      "no time like 24h",
    );
    await palomar("instance", "key", "rotate", "south", "--key", api.south.key);
    expect((await asSouth(key)).status).toBe(403);
    expect((await asSouth(api.south.key)).status).toBe(200);
  });

  test("key rotate tells of an older key whose grace ends by it, and of no other", async () => {
    const operator = operatorOf({ db: api.db, keyRing: api.keyRing, config: {} as Config });
    const rotate = async (...words: string[]) => (await operator("instance", "key", "rotate", "east", ...words)).notes;
    expect(await rotate("--grace", "24h")).toEqual([]);
    const [{ previous_key_until: until }] = await api.db("instances").where({ name: "east" }).select();
    const ended = [
      `an older key, to be accepted until ${until.toISOString()}, has ended: only the latest former one is kept`,
    ];
    expect(await rotate("--grace", "1h")).toEqual(ended);
    await api.db("instances").where({ name: "east" }).update({ previous_key_until: new Date() });
    expect(await rotate("--grace", "1h")).toEqual([]);
    expect(await rotate()).toEqual([expect.stringContaining("has ended")]);
    expect(await rotate()).toEqual([]);
  });

  test("key rotate replaces the key", async () => {
    const { json } = await palomar("instance", "key", "rotate", "south");
    expect(json).toEqual({ name: "south", key: expect.any(String) });
    expect((await api.south.call("GET", "/v1/version")).status).toBe(403);
    const { key } = json as { key: string };
    expect((await api.south.call("GET", "/v1/version", undefined, { Authorization: key })).status).toBe(200);
  });

  test("domain add allows a sender, dkim show prints what publishes its key", async () => {
    const added = await palomar("instance", "domain", "add", "east", "East.Example.");
    expect(added.json).toEqual({ name: "east", domain: "east.example", domains: ["east.example"] });
    const shown = await palomar("instance", "dkim", "show", "east");
    expect(shown.json).toEqual({
      domain: "east.example",
      selector: "palomar",
      name: "palomar._domainkey.east.example",
      value: expect.stringMatching(/^v=DKIM1; k=rsa; p=[A-Za-z0-9+/]{300,}=*$/),
    });
    expect(await palomar("instance", "dkim", "show", "east", "EAST.example")).toEqual(shown);
    await palomar("instance", "domain", "add", "east", "another.example");
    const { json } = await palomar("instance", "dkim", "show", "east");
    expect(json).toEqual([expect.objectContaining({ name: "palomar._domainkey.another.example" }), shown.json]);
    expect((await palomar("instance", "dkim", "show", "east", "east.example")).json).toEqual(shown.json);
  });

  test("DKIM keys are published in zones that are hosted here", async () => {
    await addZoneOwner(api);
    const host = (domain: string, record = "") =>
      putZoneFile(
        api,
        domain,
        `$TTL 300\n@ SOA ns1 h 1 7200 3600 1209600 60\n@ NS ns1.elsewhere.example.\n${record}\n`,
      );
    const published = async (domain: string, zone = domain) => {
      const hosted = await findAnyZone(api.db, nameOf(zone));
      const records = await readRecordsAt(api.db, hosted!.id, [nameOf(`palomar._domainkey.${domain}`)]);
      return records.map(({ rdata }) => Buffer.from(rdata).toString("latin1"));
    };
    await host("hosted.example", 'palomar._domainkey.taken TXT "v=DKIM1; p=AAAA"');
    await palomar(
      ..."instance add publisher --host p.test --domain hosted.example --domain taken.hosted.example".split(" "),
    );
    const shown = await palomar("instance", "dkim", "show", "publisher", "hosted.example");
    const { value } = shown.json as { value: string };
    const strings = `\xff${value.slice(0, 255)}${String.fromCharCode(value.length - 255)}${value.slice(255)}`;
    expect(await published("hosted.example")).toEqual([strings]);
    expect(await published("taken.hosted.example", "hosted.example")).toEqual(["\x0fv=DKIM1; p=AAAA"]);
    await palomar(..."instance domain add publisher below.hosted.example".split(" "));
    expect(await published("below.hosted.example", "hosted.example")).toHaveLength(1);
    // Nobody is answered what stands below a zone cut.
    await host("parent.example", "child NS ns1.elsewhere.example.");
    await palomar(..."instance domain add publisher news.child.parent.example".split(" "));
    expect(await published("news.child.parent.example", "parent.example")).toEqual([]);
    await palomar(..."instance domain add publisher news.parent.example".split(" "));
    expect(await published("news.parent.example", "parent.example")).toHaveLength(1);
    // A zone that came later.
    await host("east.example");
    expect(await published("east.example")).toEqual([]);
    await palomar(..."instance dkim show east east.example".split(" "));
    expect(await published("east.example")).toHaveLength(1);
  });

  test("settings change what they name", async () => {
    const set = await palomar(
      ..."instance set east --time-zone Europe/Madrid --archive off --event-days 400 --archive-days forever --message-days 30".split(
        " ",
      ),
    );
    expect(set.json).toEqual({
      failure_reports: false,
      language: "en",
      name: "east",
      host: "east.test",
      archive: false,
      time_zone: "Europe/Madrid",
      conversions: false,
      event_days: 400,
      archive_days: null,
      message_days: 30,
      records: false,
      domains: ["another.example", "east.example"],
    });
    expect((await palomar("instance", "conversions", "east", "on")).json).toMatchObject({
      conversions: true,
      event_days: 400,
      domains: ["another.example", "east.example"],
    });
    expect((await palomar("instance", "set", "east")).json).toMatchObject({ conversions: true, event_days: 400 });
    expect((await palomar(..."instance set east --message-days forever".split(" "))).json).toMatchObject({
      event_days: 400,
      message_days: null,
    });
    expect((await palomar(..."instance set east --host moved.test".split(" "))).json).toMatchObject({
      host: "moved.test",
      event_days: 400,
    });
    expect(await palomar(..."instance set east --host north.test --event-days 7".split(" "))).toMatchObject({
      refused: "another instance has this host",
      status: 1,
    });
    const { json } = await palomar("instance", "list");
    expect((json as { name: string }[]).map(({ name }) => name)).toEqual([
      "east",
      "north",
      "publisher",
      "south",
      "west",
    ]);
  });

  test("instances with one sender domain have a key each, under names of their own", async () => {
    const names = ["twin-a", "twin-b", "twin-c"];
    for (const name of names) await palomar("instance", "add", name, "--host", `${name}.test`);
    await Promise.all(names.map((name) => palomar("instance", "domain", "add", name, "twin.example")));
    const shown = await Promise.all(names.map((name) => palomar("instance", "dkim", "show", name, "twin.example")));
    const keys = shown.map(({ json }) => json as { selector: string; value: string });
    expect(new Set(keys.map(({ value }) => value)).size).toBe(3);
    expect(new Set(keys.map(({ selector }) => selector)).size).toBe(3);
    expect(keys.filter(({ selector }) => selector === "palomar")).toHaveLength(1);
  });
});

describe("palomar contact", () => {
  test("import prints the report and ends with 1 when lines were bad; export and erase one address", async () => {
    const file = join(folder, "contacts.csv");
    writeFileSync(file, "email,nombre\nana@example.org,Ana\nbad,\n");
    const dry = await palomar("contact", "import", "north", file, "--dry-run");
    const report = {
      created: 1,
      updated: 0,
      rejected: 1,
      errors: [{ line: 3, on: "invalid email The email address is not valid. It must have exactly one @-sign." }],
    };
    expect(dry).toEqual({ json: report, status: 1 });
    expect(await palomar("contact", "import", "north", file)).toEqual(dry);
    expect((await palomar("contact", "export", "north", "--json")).json).toEqual({
      name: "north",
      csv: "email,nombre,apellido,edad,sexo,profesion,localidad,grupos\r\nana@example.org,Ana,,,,,,\r\n",
    });
    const exported = await palomar("contact", "export", "north", "ana@example.org");
    expect(exported.json).toMatchObject({
      contacto: { nombre: "Ana", operacion: "importacion" },
      whitelist: false,
      mensajes: [],
    });
    expect((await palomar("contact", "erase", "north", "ana@EXAMPLE.org")).json).toEqual({
      email: "ana@EXAMPLE.org",
      contacts: 1,
      events: 0,
      messages: 0,
    });
    // A place on the whitelist is something too.
    await api.north.call("POST", "/v1/whitelist/listed@example.org");
    expect((await palomar("contact", "erase", "north", "listed@example.org")).json).toMatchObject({ contacts: 0 });
    expect((await palomar("contact", "erase", "north", "listed@example.org")).refused).toMatch(/holds nothing/);
    expect((await palomar("contact", "import", "north", join(folder, "none.csv"))).refused).toMatch(/no such file/);
    writeFileSync(file, "");
    expect(await palomar("contact", "import", "north", file)).toEqual({
      json: { created: 0, updated: 0, rejected: 0, errors: [{ line: 1, on: "falta email" }] },
      status: 1,
    });
  });
});
