import { describe, expect, it } from "vitest";
import { TRANSPORT } from "../../../../services/dns-server/message/client.ts";
import { ask } from "../ask.ts";
import { pipelineOn, zoneDatabaseOf } from "../test-zone-database.ts";

const EXAMPLE = {
  origin: "example.org.",
  text: `$TTL 3600
@ SOA ns1 hostmaster 7 7200 3600 1209600 300
@ NS ns1
@ NS ns.example.net.
@ MX 10 mail
@ MX 20 mail2.sub
@ TXT "text"
ns1 A 192.0.2.53
ns1 AAAA 2001:db8::53
mail A 192.0.2.25
www CNAME web
web A 192.0.2.80
away CNAME www.example.net.
nowhere CNAME missing
a.b.c TXT "deep"
loop1 CNAME loop2
loop2 CNAME loop1
self CNAME self
chain CNAME www
_sip._tcp SRV 1 2 5060 sip
sip A 192.0.2.60
svc HTTPS 1 . alpn=h2
svc A 192.0.2.61
naptr NAPTR 1 1 "a" "" "" sip
services NAPTR 1 1 "s" "SIP+D2U" "" _sip._tcp
services NAPTR 2 1 "s" "SIP+D2T" "" _sip._tcp
alternative HTTPS 0 svc
alternative HTTPS 0 alternative
*.wild A 192.0.2.7
*.wild MX 5 mail
exact.wild TXT "here"
ent.below.wild TXT "below an empty non-terminal"
*.alias CNAME web
*.loop CNAME x.loop
dname DNAME target
under.target A 192.0.2.90
far DNAME example.net.
grow DNAME a.grow
long DNAME ${"l".repeat(60)}.${"m".repeat(60)}.${"n".repeat(60)}.${"o".repeat(50)}
sub NS ns.sub
sub NS ns1
sub DS 1 13 2 ${"ab".repeat(32)}
ns.sub A 192.0.2.54
mail2.sub A 192.0.2.26
tosub CNAME host.sub
UPPER A 192.0.2.99
shout CNAME Loud.Example.ORG.
loud A 192.0.2.98
odd\\.dot A 192.0.2.97
unknown TYPE65280 \\# 3 010203
`,
};
const CHILD = {
  origin: "child.example.org.",
  text: `$TTL 60\n@ SOA ns1.example.org. hostmaster 9 7200 3600 1209600 30\n@ NS ns1.example.org.\nx A 192.0.2.77\n`,
};

const pipeline = pipelineOn(zoneDatabaseOf(EXAMPLE, CHILD));
const udp = (name: string, type: string) => ask(pipeline, name, type)!;
const SOA = "example.org SOA ns1.example.org 7";

describe("answers from a zone (RFC 1034 §4.3.2)", () => {
  it.each<[string, string, string[]]>([
    ["web.example.org", "A", ["web.example.org A 192.0.2.80"]],
    ["example.org", "SOA", [SOA]],
    ["example.org", "TXT", ["example.org TXT text"]],
    ["example.org", "NS", ["example.org NS ns1.example.org", "example.org NS ns.example.net"]],
    ["www.example.org", "CNAME", ["www.example.org CNAME web.example.org"]],
    ["www.example.org", "A", ["www.example.org CNAME web.example.org", "web.example.org A 192.0.2.80"]],
    [
      "chain.example.org",
      "A",
      [
        "chain.example.org CNAME www.example.org",
        "www.example.org CNAME web.example.org",
        "web.example.org A 192.0.2.80",
      ],
    ],
    ["away.example.org", "A", ["away.example.org CNAME www.example.net"]],
    ["upper.example.org", "A", ["upper.example.org A 192.0.2.99"]],
    ["x.child.example.org", "A", ["x.child.example.org A 192.0.2.77"]],
  ])("%s %s", (name, type, answers) => {
    expect(udp(name, type)).toMatchObject({ rcode: "NOERROR", aa: true, tc: false, ra: false, answers });
  });

  it.each([
    ["a type that the name has not", "web.example.org", "AAAA"],
    ["an empty non-terminal", "b.c.example.org", "A"],
    ["an unknown type", "web.example.org", "UNKNOWN_65279"],
    ["the end of an alias chain", "www.example.org", "TXT"],
  ])("NODATA with the SOA at the negative TTL: %s", (_what, name, type) => {
    const answer = udp(name, type);
    expect(answer).toMatchObject({ rcode: "NOERROR", aa: true, authorities: [SOA], authorityTtls: [300] });
  });

  it("NXDOMAIN with the SOA of the zone that the last name is in", () => {
    expect(udp("missing.example.org", "A")).toMatchObject({ rcode: "NXDOMAIN", aa: true, authorities: [SOA] });
    expect(udp("missing.child.example.org", "A")).toMatchObject({
      rcode: "NXDOMAIN",
      authorities: ["child.example.org SOA ns1.example.org 9"],
      authorityTtls: [30],
    });
    expect(udp("nowhere.example.org", "A")).toMatchObject({
      rcode: "NXDOMAIN",
      answers: ["nowhere.example.org CNAME missing.example.org"],
      authorities: [SOA],
    });
  });

  it("refuses names that it does not host, without AA or referral", () => {
    expect(udp("example.com", "A")).toMatchObject({ rcode: "REFUSED", aa: false, answers: [], authorities: [] });
    expect(udp("org", "SOA")).toMatchObject({ rcode: "REFUSED" });
  });

  it("stops at the first repeated name of an alias loop, each RRset once", () => {
    expect(udp("loop1.example.org", "A").answers).toEqual([
      "loop1.example.org CNAME loop2.example.org",
      "loop2.example.org CNAME loop1.example.org",
    ]);
    expect(udp("self.example.org", "A").answers).toEqual(["self.example.org CNAME self.example.org"]);
    expect(udp("y.loop.example.org", "A").answers).toEqual([
      "y.loop.example.org CNAME x.loop.example.org",
      "x.loop.example.org CNAME x.loop.example.org",
    ]);
  });
});

describe("wildcards (RFC 4592)", () => {
  it.each<[string, string, Partial<{ rcode: string; answers: string[] }>]>([
    ["x.wild.example.org", "A", { rcode: "NOERROR", answers: ["x.wild.example.org A 192.0.2.7"] }],
    ["x.y.wild.example.org", "A", { rcode: "NOERROR", answers: ["x.y.wild.example.org A 192.0.2.7"] }],
    ["*.wild.example.org", "A", { rcode: "NOERROR", answers: ["*.wild.example.org A 192.0.2.7"] }],
    ["x.wild.example.org", "TXT", { rcode: "NOERROR", answers: [] }],
    ["exact.wild.example.org", "A", { rcode: "NOERROR", answers: [] }],
    ["x.exact.wild.example.org", "A", { rcode: "NXDOMAIN", answers: [] }],
    ["below.wild.example.org", "A", { rcode: "NOERROR", answers: [] }],
    ["x.below.wild.example.org", "A", { rcode: "NXDOMAIN", answers: [] }],
    [
      "x.alias.example.org",
      "A",
      { rcode: "NOERROR", answers: ["x.alias.example.org CNAME web.example.org", "web.example.org A 192.0.2.80"] },
    ],
    ["x.alias.example.org", "CNAME", { answers: ["x.alias.example.org CNAME web.example.org"] }],
  ])("%s %s", (name, type, expected) => {
    expect(udp(name, type)).toMatchObject(expected);
  });

  it("adds the addresses of what a synthesised record points to", () => {
    expect(udp("x.wild.example.org", "MX").additionals).toEqual(["mail.example.org A 192.0.2.25"]);
  });
});

describe("DNAME (RFC 6672)", () => {
  it("redirects names below its owner and follows them", () => {
    const { answers } = udp("under.dname.example.org", "A");
    expect(answers.map((answer) => answer.split(" ").slice(0, 2).join(" "))).toEqual([
      "dname.example.org DNAME",
      "under.dname.example.org CNAME",
      "under.target.example.org A",
    ]);
    expect(answers[1]).toBe("under.dname.example.org CNAME under.target.example.org");
  });

  it("does not redirect its owner", () => {
    expect(udp("dname.example.org", "A")).toMatchObject({ rcode: "NOERROR", answers: [], authorities: [SOA] });
  });

  it("leaves the target to the client where it is in no zone below", () => {
    expect(udp("x.far.example.org", "A").answers[1]).toBe("x.far.example.org CNAME x.example.net");
  });

  it("gives the DNAME of a growing loop once, and the loop's names up to a bound", () => {
    const { answers } = ask(pipeline, "x.grow.example.org", "A", { transport: TRANSPORT.TCP })!;
    expect(answers.filter((answer) => answer.includes(" DNAME "))).toHaveLength(1);
    expect(answers.slice(1, 3)).toEqual([
      "x.grow.example.org CNAME x.a.grow.example.org",
      "x.a.grow.example.org CNAME x.a.a.grow.example.org",
    ]);
    expect(answers.length).toBeLessThanOrEqual(18);
  });

  it("says YXDOMAIN with the DNAME when the name would be too long", () => {
    const answer = udp(`${"p".repeat(20)}.long.example.org`, "A");
    expect(answer.rcode).toBe("YXDOMAIN");
    expect(answer.answers).toHaveLength(1);
  });
});

describe("zone cuts", () => {
  const referral = {
    rcode: "NOERROR",
    aa: false,
    answers: [],
    authorities: ["sub.example.org NS ns.sub.example.org", "sub.example.org NS ns1.example.org"],
    additionals: [
      "ns.sub.example.org A 192.0.2.54",
      "ns1.example.org A 192.0.2.53",
      "ns1.example.org AAAA 2001:db8::53",
    ],
  };

  it.each([
    ["at the cut", "sub.example.org", "A"],
    ["for its NS", "sub.example.org", "NS"],
    ["below", "x.y.sub.example.org", "A"],
    ["for a name that there is glue of", "ns.sub.example.org", "A"],
    ["for a DS below", "x.sub.example.org", "DS"],
  ])("refers %s, with glue", (_where, name, type) => {
    const answer = udp(name, type);
    expect({ ...answer, additionals: answer.additionals }).toMatchObject(referral);
  });

  it("answers DS from the parent's side", () => {
    expect(udp("sub.example.org", "DS")).toMatchObject({ aa: true, authorities: [] });
    expect(udp("sub.example.org", "DS").answers).toHaveLength(1);
    expect(udp("child.example.org", "DS")).toMatchObject({ rcode: "NXDOMAIN", authorities: [SOA] });
    expect(udp("example.org", "DS")).toMatchObject({ rcode: "NOERROR", answers: [], authorities: [SOA] });
  });

  it("refers after an alias, AA being the alias'", () => {
    expect(udp("tosub.example.org", "A")).toMatchObject({
      aa: true,
      answers: ["tosub.example.org CNAME host.sub.example.org"],
      authorities: referral.authorities,
    });
  });
});

describe("additional data", () => {
  it.each<[string, string, string[]]>([
    ["example.org", "MX", ["mail.example.org A 192.0.2.25"]],
    ["_sip._tcp.example.org", "SRV", ["sip.example.org A 192.0.2.60"]],
    ["svc.example.org", "UNKNOWN_65", ["svc.example.org A 192.0.2.61"]],
    ["naptr.example.org", "NAPTR", ["sip.example.org A 192.0.2.60"]],
    ["example.org", "NS", ["ns1.example.org A 192.0.2.53", "ns1.example.org AAAA 2001:db8::53"]],
  ])("%s %s", (name, type, additionals) => {
    expect(udp(name, type).additionals).toEqual(additionals);
  });

  it("has the services that several NAPTR lead to once", () => {
    expect(udp("services.example.org", "NAPTR").additionals).toEqual([
      "_sip._tcp.example.org SRV 1 2 5060 sip.example.org",
    ]);
  });

  it("has the bindings of another owner, and not those of the answer again", () => {
    const { additionals } = udp("alternative.example.org", "UNKNOWN_65");
    expect(additionals.map((record) => record.split(" ", 2).join(" "))).toEqual([
      "svc.example.org UNKNOWN_65",
      "svc.example.org A",
    ]);
  });
});

describe("ANY (RFC 8482)", () => {
  it("gives one RRset over UDP, all over TCP", () => {
    expect(udp("ns1.example.org", "ANY").answers).toEqual(["ns1.example.org A 192.0.2.53"]);
    expect(ask(pipeline, "ns1.example.org", "ANY", { transport: TRANSPORT.TCP })!.answers).toHaveLength(2);
  });

  it("does not follow aliases", () => {
    expect(udp("www.example.org", "ANY").answers).toEqual(["www.example.org CNAME web.example.org"]);
  });
});

describe("case and octets (RFC 4343)", () => {
  it("returns the question as it came, and answers in any case", () => {
    const answer = udp("wEb.eXaMpLe.OrG", "A");
    expect(answer.question?.name).toBe("wEb.eXaMpLe.OrG");
    expect(answer.answers).toEqual(["wEb.eXaMpLe.OrG A 192.0.2.80"]);
  });

  it("keeps the case of stored data, whatever the question's", () => {
    expect(udp("shout.example.org", "A").answers).toEqual([
      "shout.example.org CNAME Loud.Example.ORG",
      "Loud.Example.ORG A 192.0.2.98",
    ]);
    expect(udp("EXAMPLE.ORG", "MX").answers).toEqual([
      "EXAMPLE.ORG MX 10 mail.example.org",
      "EXAMPLE.ORG MX 20 mail2.sub.example.org",
    ]);
    expect(udp("X.EXAMPLE.ORG", "A").authorities).toEqual([SOA]);
  });

  it("serves unknown types as they are (RFC 3597)", () => {
    expect(udp("unknown.example.org", "UNKNOWN_65280").octets.slice(-3)).toEqual(Uint8Array.of(1, 2, 3));
  });
});
