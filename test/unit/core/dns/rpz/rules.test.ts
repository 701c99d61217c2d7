import { describe, expect, it } from "vitest";
import { formatDomainName } from "../../../../../services/core/dns/name.ts";
import { formatRdata } from "../../../../../services/core/dns/rdata/rdata.ts";
import { type ImportedLine, readRpzRules } from "../../../../../services/core/dns/rpz/import.ts";
import {
  decodeRpzRule,
  encodeRpzRule,
  formatRpzAction,
  formatRpzTrigger,
  parseRpzAction,
  parseRpzTrigger,
  readRuleOwner,
  showRpzRecord,
  whyPassedOver,
} from "../../../../../services/core/dns/rpz/rules.ts";
import { typeMnemonic } from "../../../../../services/core/dns/rr-types.ts";
import { accepted, nameOf, recordOf } from "../support.ts";

const apex = nameOf("rpz.example.");

describe("triggers", () => {
  it.each([
    ["qname:bad.example", "bad.example"],
    ["qname:*.bad.example", "*.bad.example"],
    ["qname:bücher.example", "xn--bcher-kva.example", "qname:xn--bcher-kva.example"],
    ["QNAME:Bad.Example.", "Bad.Example", "qname:bad.example"],
    ["ip:192.0.2.0/24", "24.0.2.0.192.rpz-ip"],
    ["ip:192.0.2.1", "32.1.2.0.192.rpz-ip", "ip:192.0.2.1/32"],
    ["client-ip:2001:db8::/32", "32.zz.db8.2001.rpz-client-ip"],
    ["ip:2001:db8:aa::/48", "48.zz.aa.db8.2001.rpz-ip"],
    ["nsip:192.0.2.1/32", "32.1.2.0.192.rpz-nsip"],
    ["nsip:2001:db8::1", "128.1.zz.db8.2001.rpz-nsip", "nsip:2001:db8::1/128"],
    ["ip:2001:db8:0:1:1:1:1:1/128", "128.1.1.1.1.1.0.db8.2001.rpz-ip"],
    ["ip:2001:0:0:1::/64", "64.zz.1.0.0.2001.rpz-ip", "ip:2001:0:0:1::/64"],
    ["ip:::1/128", "128.1.zz.rpz-ip"],
    ["ip:8000::/1", "1.zz.8000.rpz-ip"],
    ["nsdname:ns.bad.example", "ns.bad.example.rpz-nsdname"],
  ])("%s has the owner %s", (text, owner, formatted = text) => {
    const trigger = accepted(parseRpzTrigger(text));
    expect(formatRpzTrigger(trigger)).toBe(formatted);
    const record = accepted(encodeRpzRule(trigger, { kind: "nxdomain" }, apex));
    expect(formatDomainName(record.owner)).toBe(`${owner}.rpz.example.`);
    expect(formatRpzTrigger(accepted(decodeRpzRule(record, apex)).trigger)).toBe(formatted);
  });

  it.each([
    ["bad.example", "not a trigger"],
    ["name:bad.example", "not a trigger"],
    ["qname:", "empty"],
    ["qname:.", "root"],
    ["qname:a..b", "empty label"],
    ["qname:24.0.2.0.192.rpz-ip", "another kind of trigger"],
    ["ip:192.0.2.1/24", "host bits"],
    ["ip:192.0.2.0/33", "prefix from 1 to 32"],
    ["ip:192.0.2.0/0", "prefix from 1 to 32"],
    ["ip:192.0.2.0/", "prefix from 1 to 32"],
    ["ip:192.0.2.0/24/1", "not an address"],
    ["ip:bad.example", "not an address"],
    ["client-ip:2001:db8::1/64", "host bits"],
    ["client-ip:2001:db8::/129", "prefix from 1 to 128"],
  ])("%s is refused", (text, message) => {
    expect(parseRpzTrigger(text)).toMatchObject({ ok: false, error: { message: expect.stringContaining(message) } });
  });

  it("do not fit when trigger and apex are more than 255 octets", () => {
    const long = accepted(parseRpzTrigger(`qname:${"a.".repeat(122)}example`));
    expect(encodeRpzRule(long, { kind: "drop" }, apex)).toMatchObject({
      ok: false,
      error: { message: expect.stringContaining("longer than 255") },
    });
  });
});

describe("actions", () => {
  it.each([
    ["nxdomain", "CNAME ."],
    ["nodata", "CNAME *."],
    ["passthru", "CNAME rpz-passthru."],
    ["drop", "CNAME rpz-drop."],
    ["tcp-only", "CNAME rpz-tcp-only."],
    ["NXDOMAIN", "CNAME .", "nxdomain"],
    ["CNAME .", "CNAME .", "nxdomain"],
    ["A 192.0.2.80", "A 192.0.2.80"],
    ["cname garden.example", "CNAME garden.example.", "CNAME garden.example."],
    ["CNAME *.garden.example", "CNAME *.garden.example.", "CNAME *.garden.example."],
    ["MX 10 mail.example", "MX 10 mail.example.", "MX 10 mail.example."],
    ["TXT blocked by policy; ask us", 'TXT "blocked by policy; ask us"', 'TXT "blocked by policy; ask us"'],
  ])("%s is the record %s", (text, data, formatted = text) => {
    const action = accepted(parseRpzAction(text));
    expect(formatRpzAction(action)).toBe(formatted);
    const record = accepted(encodeRpzRule(accepted(parseRpzTrigger("qname:bad.example")), action, apex));
    expect(`${typeMnemonic(record.type)} ${formatRdata(record.type, record.rdata)}`).toBe(data);
    expect(record.ttl).toBe(60);
    expect(formatRpzAction(accepted(decodeRpzRule(record, apex)).action)).toBe(formatted);
  });

  it.each([
    ["block", "not an action"],
    ["", "not an action"],
    ["A", "not an action"],
    ["A 192.0.2.300", "192.0.2.300 is not an IPv4 address"],
    ["SOA a b 1 2 3 4 5", "cannot be local data"],
    ["DNAME a.", "cannot be local data"],
    ["ANY x", "cannot be local data"],
  ])("%s is refused", (text, message) => {
    expect(parseRpzAction(text)).toMatchObject({ ok: false, error: { message: expect.stringContaining(message) } });
  });
});

describe("decodeRpzRule", () => {
  it.each([
    ["@", "SOA", "a. b. 1 2 3 4 5"],
    ["@", "NS", "localhost."],
    ["a", "DNAME", "b."],
    ["24.1.2.0.192.rpz-ip", "CNAME", "."],
    ["024.0.2.0.192.rpz-ip", "CNAME", "."],
    ["32.db8.2001.rpz-ip", "CNAME", "."],
    ["128.0.0.zz.db8.2001.rpz-ip", "CNAME", "."],
    ["rpz-ip", "CNAME", "."],
    ["rpz-nsdname", "CNAME", "."],
    ["a.test.", "CNAME", "."],
  ])("refuses %s %s %s", (owner, type, data) => {
    expect(decodeRpzRule(recordOf(owner, type, data), nameOf("example.org.")).ok).toBe(false);
  });
});

describe("showRpzRecord", () => {
  it.each([
    ["*.Bad", "CNAME", ".", "qname:*.bad", "nxdomain"],
    ["a", "DNAME", "b.", "owner:a", "DNAME b."],
    ["X.rpz-ip", "CNAME", ".", "owner:X.rpz-ip", "CNAME ."],
    ["24.1.2.0.192.rpz-ip", "CNAME", "*.", "owner:24.1.2.0.192.rpz-ip", "CNAME *."],
    ["rpz-nsdname", "A", "192.0.2.1", "owner:rpz-nsdname", "A 192.0.2.1"],
    ["a\\.b\\032c.rpz-nsip", "CNAME", ".", "owner:a\\.b\\032c.rpz-nsip", "CNAME ."],
  ])("%s %s %s is found by what it is shown as", (owner, type, data, trigger, action) => {
    const record = recordOf(`${owner}.rpz.example.`, type, data);
    const shown = showRpzRecord(record, apex);
    expect(shown).toMatchObject({ trigger, action });
    expect(shown.fault === null).toBe(trigger.startsWith("qname:"));
    expect(accepted(readRuleOwner(shown.trigger, apex)).owner.key).toBe(record.owner.key);
  });
});

describe("whyPassedOver", () => {
  it.each([
    ["ip:::ffff:198.51.100.0/120", true],
    ["client-ip:::ffff:0:0/96", true],
    ["nsip:::ffff:c000:201", true],
    ["ip:::fffe:0:0/95", false],
    ["ip:::198.51.100.0/120", false],
    ["ip:198.51.100.0/24", false],
    ["qname:ffff.example", false],
  ])("%s: %s", (trigger, expected) => {
    expect(whyPassedOver(accepted(parseRpzTrigger(trigger))) !== undefined).toBe(expected);
  });
});

describe("readRpzRules", () => {
  function linesOf(text: string, format: "rpz" | "hosts" | "domains"): string[] {
    return [...readRpzRules(text, format, apex)].map(describeLine);
  }

  function describeLine(line: ImportedLine): string {
    if ("reason" in line) return `${line.line}: ! ${line.reason.message}`;
    return `${line.line}: ${line.rules.map(({ trigger, action }) => `${formatRpzTrigger(trigger)} ${formatRpzAction(action)}`).join(", ")}`;
  }

  it("reads a policy zone, whatever its name", () => {
    const text = `$TTL 60
@ SOA ns. h. 1 2 3 4 5
@ NS ns.
bad.example CNAME .
*.bad.example CNAME .
24.0.2.0.192.rpz-ip CNAME *.
24.1.2.0.192.rpz-ip CNAME *.
garden A 192.0.2.300
garden A 192.0.2.80
 AAAA 2001:db8::80
`;
    const expected = [
      "4: qname:bad.example nxdomain",
      "5: qname:*.bad.example nxdomain",
      "6: ip:192.0.2.0/24 nodata",
      "7: ! 192.0.2.1/24 has host bits set beyond /24",
      "8: ! column 10: A address: 192.0.2.300 is not an IPv4 address",
      "9: qname:garden A 192.0.2.80",
      "10: qname:garden AAAA 2001:db8::80",
    ];
    expect(linesOf(text, "rpz")).toEqual(expected);
    expect(
      linesOf(`$ORIGIN other.test.\n${text}`, "rpz").map((line) => line.replace(/^\d+/, (n) => String(Number(n) - 1))),
    ).toEqual(expected);
  });

  it("says of a $GENERATE once that it is wrong", () => {
    expect(linesOf("$GENERATE 254-65535 a$ A 192.0.2.$\nb CNAME .", "rpz")).toEqual([
      "1: qname:a254 A 192.0.2.254",
      "1: qname:a255 A 192.0.2.255",
      "1: ! column 26: A address: 192.0.2.256 is not an IPv4 address",
      "2: qname:b nxdomain",
    ]);
  });

  it("reads a hosts file", () => {
    const text =
      "# a list\r\n127.0.0.1 localhost.localdomain localhost4\r\n0.0.0.0 bad.example Worse.example # two\n\n:: bad6.example\n192.0.2.1 nas.example\n0.0.0.0\nnonsense\n" +
      "255.255.255.255 broadcasthost\nfe80::1%lo0 ip6-localhost\nff02::1 ip6-allnodes\n0.0.0.0 0.0.0.0\n" +
      "::1 ip6-localhost bad7.example\n127.0.0.1 localhost\n0.0.0.0 8.0.0.0.127.rpz-client-ip";
    expect(linesOf(text, "hosts")).toEqual([
      "2: ",
      "3: qname:bad.example nxdomain, qname:worse.example nxdomain",
      "5: qname:bad6.example nxdomain",
      "6: ! 192.0.2.1 is not an address that stands for nothing (0.0.0.0, 127.0.0.1, ::, ::1)",
      "7: ! the line has no name",
      "8: ! nonsense is not an address that stands for nothing (0.0.0.0, 127.0.0.1, ::, ::1)",
      "9: ",
      "10: ",
      "11: ",
      "12: ",
      "13: qname:bad7.example nxdomain",
      "14: qname:localhost nxdomain",
      "15: ! 8.0.0.0.127.rpz-client-ip ends in rpz-client-ip, which marks another kind of trigger",
    ]);
  });

  it("reads a list of domains", () => {
    const text =
      "bad.example\n\n; comment\nbücher.example.\nhttp://bad.example/\n192.0.2.1\na b\n||bad.example^\na..b\n32.10.2.0.192.rpz-ip\nns.example.RPZ-NSDNAME.";
    expect(linesOf(text, "domains")).toEqual([
      "1: qname:bad.example nxdomain, qname:*.bad.example nxdomain",
      "4: qname:xn--bcher-kva.example nxdomain, qname:*.xn--bcher-kva.example nxdomain",
      "5: ! http://bad.example/ is not a domain name",
      "6: ! 192.0.2.1 is not a domain name",
      "7: ! b is more than a name",
      "8: ! ||bad.example^ is not a domain name",
      "9: ! a..b is not a domain name",
      "10: ! 32.10.2.0.192.rpz-ip ends in rpz-ip, which marks another kind of trigger",
      "11: ! ns.example.RPZ-NSDNAME. ends in rpz-nsdname, which marks another kind of trigger",
    ]);
  });
});
