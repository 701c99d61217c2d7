import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { loadConfig } from "../../services/platform/config/config.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { addZoneOwner, putZone, putZoneFile, SIGNER } from "../support/dns-server.ts";
import { complaintsAbout } from "../support/dnssec.ts";
import { type CommandOutcome, operatorOf, printed } from "../support/operator.ts";
import { isInstalled } from "../support/peers-processes.ts";
import { SIGNING_PROGRAM, signZone } from "../support/signed-zones.ts";

let database: TestDatabase;
let palomar: (...args: string[]) => Promise<CommandOutcome>;
let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "palomar-keys-"));
  database = await createTestDatabase();
  await addZoneOwner(database);
  const config = loadConfig({ PALOMAR_RESOLVER: "127.0.0.1:1" });
  if (!config.ok) throw new Error(config.error.join());
  palomar = operatorOf({ db: database.db, keyRing: SIGNER.keyRing, config: config.value });
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});

async function expectSound(zone: string): Promise<void> {
  expect(complaintsAbout(zone, await printed(palomar("zone", "export", zone, "--signed")))).toEqual({});
}

interface Shown {
  readonly enabled: boolean;
  readonly keys: readonly {
    readonly key_tag: number;
    readonly role: string;
    readonly state: string;
    readonly ds: string[];
  }[];
}

async function shown(...args: string[]): Promise<Shown> {
  const { json, refused } = await palomar("dnssec", ...args);
  if (refused !== undefined) throw new Error(refused);
  return json as Shown;
}

describe("palomar dnssec", () => {
  it("enables, shows, rolls over and disables", async () => {
    const zone = "commands.example";
    await putZone(database, zone, ["@ NS ns1", "ns1 A 192.0.2.53"]);
    expect((await palomar("dnssec", "show", zone)).text).toBe(`${zone} is not signed`);
    for (const change of [["zsk"], ["--algorithm", "15"]]) {
      expect((await palomar("dnssec", "rollover", zone, ...change)).refused).toBe(`${zone} is not signed`);
    }
    const enabled = await shown("enable", zone, "--denial", "nsec3", "--keys", "ksk-zsk", "--algorithm", "15");
    const [ksk, zsk] = enabled.keys;
    expect([ksk!.role, zsk!.role]).toEqual(["ksk", "zsk"]);
    const text = await printed(palomar("dnssec", "show", zone));
    expect(text).toBe(
      [
        `${zone} is signed, denial by nsec3`,
        `${ksk!.key_tag} ksk algorithm 15 published`,
        `  DS ${ksk!.ds[0]}`,
        `${zsk!.key_tag} zsk algorithm 15 active`,
        "parent: has not said yet which DS it has",
      ].join("\n"),
    );
    await expectSound(zone);
    expect((await palomar("dnssec", "rollover", zone, "ksk")).refused).toMatch(/has not been seen/);
    expect((await shown("rollover", zone, "zsk")).keys.map(({ state }) => state)).toEqual([
      "published",
      "active",
      "published",
    ]);
    expect((await shown("ds-seen", zone, String(ksk!.key_tag))).keys[0]!.state).toBe("active");
    const withdrawn = await palomar("dnssec", "ds-withdraw", zone);
    expect(withdrawn.text).toContain("\nasks its parent, by CDS and CDNSKEY, to remove the DS");
    expect(withdrawn.json).toMatchObject({ ds_wanted: false });
    await expectSound(zone);
    await shown("ds-withdraw", zone, "--undo");
    expect((await palomar("dnssec", "disable", zone)).refused).toMatch(/was seen with the DS/);
    await shown("ds-automatic", zone, "--off");
    await shown("ds-automatic", zone);
    await shown("ds-gone", zone);
    expect((await palomar("dnssec", "disable", zone)).refused).toMatch(/^caches may have the DS/);
    expect((await shown("disable", zone, "--force")).enabled).toBe(false);
  });

  it("tells what the parent said when it was asked, or that nobody did", async () => {
    const zone = "sub.parent.example";
    await putZone(database, zone, ["@ NS ns1", "ns1 A 192.0.2.53"]);
    const { keys } = await shown("enable", zone);
    expect(await palomar("dnssec", "check", zone)).toMatchObject({
      status: 1,
      notes: [`nobody says now which DS the parent of ${zone} has: does PALOMAR_RESOLVER answer?`],
      text: expect.stringContaining("\nparent: has not said yet which DS it has"),
    });
    await putZone(database, "parent.example", [
      "@ NS ns1",
      "ns1 A 192.0.2.53",
      "sub NS ns1",
      `sub DS ${keys[0]!.ds[0]}`,
    ]);
    const checked = await palomar("dnssec", "check", zone);
    expect(checked).toMatchObject({ status: 0, notes: [], json: { parent: { ds: keys[0]!.ds, authenticated: true } } });
    expect(checked.text).toMatch(new RegExp(`\nparent: has the DS \\(\\d{4}-.*Z\\)\n  DS ${keys[0]!.ds[0]}$`));
    expect((await palomar("dnssec", "ds-withdraw", zone)).text).toMatch(/\nasks its parent, /);
  });

  it("refuses what is no zone, key, role or algorithm", async () => {
    expect((await palomar("dnssec", "enable", "absent.example")).refused).toBe("absent.example does not exist");
    for (const args of [
      ["enable", "commands.example", "--denial", "nsec5"],
      ["enable", "commands.example", "--algorithm", "7"],
      ["rollover", "commands.example"],
      ["rollover", "commands.example", "owner"],
      ["ds-seen", "commands.example", "many"],
      ["key", "export", "commands.example", "12345"],
      ["key", "import", "commands.example", join(folder, "nothing")],
    ]) {
      expect((await palomar("dnssec", ...args)).refused, args.join(" ")).toBeDefined();
    }
  });
});

describe("palomar dnssec key", () => {
  const missing = isInstalled("dnssec-keygen") ? "" : " (skipped: dnssec-keygen is not installed)";

  it.skipIf(missing !== "")(`takes BIND's keys over, and gives them back${missing}`, async () => {
    const zone = "moved.example";
    await putZone(database, zone, ["@ NS ns1", "ns1 A 192.0.2.53"]);
    const make = (...options: string[]) =>
      execFileSync("dnssec-keygen", ["-q", "-K", folder, ...options, zone], { encoding: "utf8" }).trim();
    const ksk = make("-a", "13", "-f", "KSK");
    const zsk = make("-a", "13");
    const imported = await shown("key", "import", zone, join(folder, `${ksk}.private`), join(folder, zsk));
    expect(imported.keys.map(({ role }) => role)).toEqual(["ksk", "zsk"]);
    const dsset = execFileSync("dnssec-dsfromkey", ["-2", join(folder, ksk)], { encoding: "utf8" });
    expect(dsset.trim()).toBe(`${zone}. IN DS ${imported.keys[0]!.ds[0]}`);
    await expectSound(zone);

    const out = join(folder, "out");
    const tag = String(imported.keys[0]!.key_tag);
    const exported = await palomar("dnssec", "key", "export", zone, tag, "--folder", out);
    const paths = exported.json as { readonly key: string; readonly private: string };
    expect(basename(paths.key)).toBe(`${ksk}.key`);
    expect(statSync(paths.private).mode & 0o777).toBe(0o600);
    const secretOf = (path: string) => /^PrivateKey: (.*)$/m.exec(readFileSync(path, "utf8"))?.[1];
    expect(secretOf(paths.private)).toBe(secretOf(join(folder, `${ksk}.private`)));
    expect((await palomar("dnssec", "key", "export", zone, tag, "--folder", out)).refused).toMatch(/EEXIST/);
  });
});

describe("palomar dnssec key import", () => {
  it("refuses what is no key, and a revoked one, and changes nothing", async () => {
    const zone = "no-key.example";
    await putZone(database, zone, ["@ NS ns1", "ns1 A 192.0.2.53"]);
    const { keys } = await shown("enable", zone);
    const exported = await palomar("dnssec", "key", "export", zone, String(keys[0]!.key_tag), "--folder", folder);
    const paths = exported.json as { readonly key: string; readonly private: string };
    const [key, text] = [readFileSync(paths.key, "utf8"), readFileSync(paths.private, "utf8")];
    await shown("disable", zone, "--force");
    const scalar = Buffer.alloc(33, 1).toString("base64");
    writeFileSync(paths.private, text.replace(/^PrivateKey: .*$/m, `PrivateKey: ${scalar}`));
    const refused = await palomar("dnssec", "key", "import", zone, paths.private);
    expect(refused.refused).toBe("the .private file: PrivateKey must have 32 octets, not 33");
    writeFileSync(paths.private, text);
    writeFileSync(paths.key, key.replace("DNSKEY 257", "DNSKEY 385"));
    expect((await palomar("dnssec", "key", "import", zone, paths.private)).refused).toMatch(/is revoked \(flags 385/);
    expect((await shown("show", zone)).enabled).toBe(false);
  });
});

describe("keys that are exported", () => {
  const absent = ["dnssec-signzone", "dnssec-verify"].filter((program) => !isInstalled(program));
  const missing = absent.length === 0 ? "" : ` (skipped: ${absent.join(" and ")} not installed)`;
  const kinds = [8, 13, 15].flatMap((algorithm) => [
    { algorithm, layout: "csk", denial: "nsec3" },
    { algorithm, layout: "ksk-zsk", denial: "nsec" },
  ]);

  it.skipIf(missing !== "").each(kinds)(
    `sign the zone with BIND's tools, under the same DS, and come back: algorithm $algorithm, $layout${missing}`,
    async ({ algorithm, layout, denial }) => {
      const zone = `export-${algorithm}-${layout}.example`;
      const records = ["@ NS ns1", "ns1 A 192.0.2.53", "a.b TXT deep", "*.wild A 192.0.2.1"];
      await putZone(database, zone, records);
      const options = ["--algorithm", String(algorithm), "--keys", layout, "--denial", denial];
      const { keys } = await shown("enable", zone, ...options);
      await expectSound(zone);
      const out = join(folder, zone);
      const files: string[] = [];
      for (const { key_tag: tag } of keys) {
        const { json } = await palomar("dnssec", "key", "export", zone, String(tag), "--folder", out);
        files.push((json as { readonly private: string }).private);
      }
      const plain = join(out, "zone");
      writeFileSync(plain, await printed(palomar("zone", "export", zone)));
      const chain = denial === "nsec3" ? ["-3", "-", "-H", "0"] : [];
      const run = (program: string, ...args: string[]) =>
        execFileSync(program, args, { cwd: out, encoding: "utf8", stdio: "pipe" });
      run("dnssec-signzone", "-S", "-q", "-z", "-K", out, ...chain, "-o", zone, "-f", `${plain}.signed`, plain);
      run("dnssec-verify", "-q", ...(layout === "csk" ? ["-z"] : []), "-o", zone, `${plain}.signed`);
      const entryPoint = keys.find(({ ds }) => ds.length > 0)!;
      const dsset = run("dnssec-dsfromkey", "-2", "-f", `${plain}.signed`, zone).trim();
      expect(dsset).toBe(`${zone}. IN DS ${entryPoint.ds[0]}`);

      await shown("disable", zone);
      const back = await shown("key", "import", zone, ...files);
      expect(back.keys.map(({ key_tag, role }) => `${key_tag} ${role}`).sort()).toEqual(
        keys.map(({ key_tag, role }) => `${key_tag} ${role}`).sort(),
      );
      await expectSound(zone);
    },
  );
});

describe("a presigned zone", () => {
  const missing = isInstalled(SIGNING_PROGRAM) ? "" : ` (skipped: ${SIGNING_PROGRAM} is not installed)`;

  it.skipIf(missing !== "").each(["nsec", "nsec3"] as const)(
    `stays as it came, with %s, and is not signed a second time${missing}`,
    async (denial) => {
      const name = `presigned-${denial}.example`;
      const text = "$TTL 300\n@ SOA ns1 hostmaster 7 7200 3600 1209600 60\n@ NS ns1\nns1 A 192.0.2.53\nwww CNAME ns1\n";
      const signed = signZone(name, text, denial);
      await putZoneFile(database, name, signed.text);
      const plain = await printed(palomar("zone", "export", name));
      expect(complaintsAbout(name, plain)).toEqual({});
      expect(await printed(palomar("zone", "export", name, "--signed"))).toBe(plain);
      const { refused } = await palomar("dnssec", "enable", name);
      expect(refused).toMatch(/^presigned-\w+\.example has \w+ records of its own, which are served as they are/);
      expect((await shown("show", name)).enabled).toBe(false);
    },
  );
});
