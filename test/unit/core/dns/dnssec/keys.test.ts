import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  generateSigningKey,
  publicKeyOctets,
  SIGNING_ALGORITHMS,
} from "../../../../../services/core/dns/dnssec/algorithm.ts";
import { formatBindKey, parseBindKey } from "../../../../../services/core/dns/dnssec/bind-key-file.ts";
import { dnskeyRdata, dsRdata, isDsOf, keyTag } from "../../../../../services/core/dns/dnssec/dnskey.ts";
import { isSignedBy, signRrset } from "../../../../../services/core/dns/dnssec/rrsig.ts";
import { formatRdata } from "../../../../../services/core/dns/rdata/rdata.ts";
import { TYPE } from "../../../../../services/core/dns/rr-types.ts";
import { isInstalled } from "../../../../support/peers-processes.ts";
import { accepted, nameOf, recordOf } from "../support.ts";

const APEX = nameOf("example.org.");

const USE = { created: new Date("2026-01-02T03:04:05Z"), isPublished: true, signs: true };

describe("a DNSKEY", () => {
  it("has the key tag and the DS of RFC 4034 §5.4 and RFC 4509 §2.3", () => {
    const owner = nameOf("dskey.example.com.");
    const { rdata } = recordOf(
      "dskey.example.com.",
      "DNSKEY",
      `256 3 5 AQOeiiR0GOMYkDshWoSKz9XzfwJr1AYtsmx3TGkJaNXVbfi/2pHm822aJ5iI9BMzNXxeYCmZDRD99WYwYqUSdjMmmAphXdvx
       egXd/M5+X7OrzKBaMbCVdFLUUh6DhweJBjEVv5f2wwjM9XzcnOf+EPbtG9DMBmADjFDc2w/rljwvFw==`.replace(/\s+/g, " "),
    );
    expect(keyTag(rdata)).toBe(60485);
    expect(formatRdata(TYPE.DS, dsRdata(owner, rdata))).toBe(
      "60485 5 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A",
    );
  });
});

describe.each(SIGNING_ALGORITHMS)("algorithm %i", (algorithm) => {
  it("signs what its own public key accepts, and nothing else", async () => {
    const privateKey = await generateSigningKey(algorithm);
    const dnskey = dnskeyRdata("csk", algorithm, publicKeyOctets(algorithm, privateKey));
    const rrset = [recordOf("*.WWW", "MX", "10 Mail"), recordOf("*.www", "MX", "5 mail")];
    const key = { algorithm, privateKey, keyTag: keyTag(dnskey) };
    const { rdata } = signRrset(rrset, APEX, key, { inception: 1_000, expiration: 2_000 });
    expect(formatRdata(TYPE.RRSIG, rdata)).toMatch(
      new RegExp(`^MX ${algorithm} 3 3600 19700101003320 19700101001640 ${keyTag(dnskey)} example\\.org\\. `),
    );
    expect(isSignedBy(rrset.toReversed(), rdata, dnskey)).toBe(true);
    expect(isSignedBy([recordOf("*.www", "MX", "10 mail")], rdata, dnskey)).toBe(false);
    const other = dnskeyRdata("csk", algorithm, publicKeyOctets(algorithm, await generateSigningKey(algorithm)));
    expect(isSignedBy(rrset, rdata, other)).toBe(false);
  });

  it("goes out in BIND's format and comes back", async () => {
    const privateKey = await generateSigningKey(algorithm);
    const files = formatBindKey(APEX, { role: "csk", algorithm, privateKey }, USE);
    const back = accepted(await parseBindKey(APEX, files));
    expect(back.algorithm).toBe(algorithm);
    expect(back.isEntryPoint).toBe(true);
    expect(back.privateKey.export({ format: "jwk" })).toEqual(privateKey.export({ format: "jwk" }));
    expect(files.privateText).toMatch(/^Publish: 20260102030405$/m);
    expect(files.privateText).toMatch(/^Activate: 20260102030405$/m);
    const waiting = formatBindKey(APEX, { role: "csk", algorithm, privateKey }, { ...USE, signs: false });
    expect(waiting.privateText).not.toContain("Activate");
    const stranger = formatBindKey(
      APEX,
      { role: "csk", algorithm, privateKey: await generateSigningKey(algorithm) },
      USE,
    );
    const mixed = await parseBindKey(APEX, { keyText: files.keyText, privateText: stranger.privateText });
    expect(mixed).toMatchObject({ ok: false });
    expect(await parseBindKey(nameOf("example.net."), files)).toMatchObject({ ok: false });
  });

  const missing = isInstalled("dnssec-keygen") ? "" : " (skipped: dnssec-keygen is not installed)";
  it.skipIf(missing !== "")(
    `reads the keys of dnssec-keygen, and gives dnssec-dsfromkey the same DS${missing}`,
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "palomar-keys-"));
      const run = (program: string, ...args: string[]) =>
        execFileSync(program, args, { cwd: folder, encoding: "utf8" }).trim();
      const base = run("dnssec-keygen", "-q", "-a", String(algorithm), "-b", "2048", "-f", "KSK", "example.org");
      const [keyText, privateText] = ["key", "private"].map((end) =>
        readFileSync(join(folder, `${base}.${end}`), "utf8"),
      );
      const key = accepted(await parseBindKey(APEX, { keyText: keyText!, privateText: privateText! }));
      const dnskey = dnskeyRdata("ksk", algorithm, key.publicKey);
      expect(base).toBe(
        `Kexample.org.+${String(algorithm).padStart(3, "0")}+${String(keyTag(dnskey)).padStart(5, "0")}`,
      );
      const ds = `example.org. IN DS ${formatRdata(TYPE.DS, dsRdata(APEX, dnskey))}`;
      expect(run("dnssec-dsfromkey", "-2", base)).toBe(ds);
      for (const digest of ["SHA-1", "SHA-256", "SHA-384"]) {
        const theirs = run("dnssec-dsfromkey", "-a", digest, base).replace(/^.* DS /, "");
        const rdata = recordOf("@", "DS", theirs).rdata;
        expect(isDsOf(rdata, APEX, dnskey), digest).toBe(true);
        expect(isDsOf(rdata, nameOf("example.net."), dnskey), digest).toBe(false);
      }

      const files = formatBindKey(
        APEX,
        { role: "csk", algorithm, privateKey: await generateSigningKey(algorithm) },
        USE,
      );
      writeFileSync(join(folder, `${files.name}.key`), files.keyText);
      writeFileSync(join(folder, `${files.name}.private`), files.privateText);
      const zone = "$TTL 60\n@ SOA ns.test. a.test. 1 1 1 1 1\n@ NS ns.test.\n";
      writeFileSync(join(folder, "zone"), `${zone}${files.keyText}`);
      run("dnssec-signzone", "-q", "-z", "-o", "example.org", "-f", "signed", "zone", files.name);
      expect(readFileSync(join(folder, "signed"), "utf8")).toContain("RRSIG");
      rmSync(folder, { recursive: true });
    },
  );
});
