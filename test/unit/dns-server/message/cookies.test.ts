import { describe, expect, it } from "vitest";
import { Client } from "../../../../services/dns-server/message/client.ts";
import { Cookies } from "../../../../services/dns-server/message/cookies.ts";
import { Query } from "../../../../services/dns-server/message/query.ts";
import { SipHash24 } from "../../../../services/dns-server/message/siphash.ts";

const hex = (text: string) => new Uint8Array(Buffer.from(text, "hex"));

/** A query whose COOKIE option is this. */
function queryWith(cookie: Uint8Array): Query {
  const query = new Query();
  query.octets = cookie;
  query.cookieStart = 0;
  query.cookieOctets = cookie.length;
  return query;
}

function clientAt(address: string): Client {
  const client = new Client();
  client.setAddress(address);
  return client;
}

describe("SipHash-2-4", () => {
  it.each([
    [0, "310e0edd47db6f72"],
    [1, "fd67dc93c539f874"],
    [7, "37d1018bf50002ab"],
    [8, "6224939a79f5f593"],
    [15, "e545be4961ca29a1"],
    [16, "db9bc2577fcc2a3f"],
    [63, "724506eb4c328a95"],
  ])("gives the reference's result for %i octets", (length, expected) => {
    const hash = new SipHash24(Uint8Array.from({ length: 16 }, (_, index) => index));
    const out = new Uint8Array(8);
    hash.hash(
      Uint8Array.from({ length }, (_, index) => index),
      { start: 0, end: length },
      out,
      0,
    );
    expect(Buffer.from(out).toString("hex")).toBe(expected);
  });
});

describe("server cookies (RFC 9018 appendix A)", () => {
  const secret = hex("e5e973e5a6b2a43f48e7dc849e37bfcf");

  it("makes the cookie of A.1 for a client that has none", () => {
    const query = queryWith(hex("2464c4abcf10c957"));
    const out = new Uint8Array(24);
    new Cookies(secret).write(out, 0, query, clientAt("198.51.100.100"), { valid: false, nowSeconds: 1_559_731_985 });
    expect(Buffer.from(out).toString("hex")).toBe("2464c4abcf10c957010000005cf79f111f8130c3eee29480");
  });

  it("renews the cookie of A.2 when it is older than half an hour", () => {
    const query = queryWith(hex("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));
    const client = clientAt("198.51.100.100");
    const cookies = new Cookies(secret);
    const nowSeconds = 1_559_734_385;
    const valid = cookies.isValid(query, client, nowSeconds);
    expect(valid).toBe(true);
    const out = new Uint8Array(24);
    cookies.write(out, 0, query, client, { valid, nowSeconds });
    expect(Buffer.from(out).toString("hex")).toBe("2464c4abcf10c957010000005cf7a871d4a564a1442aca77");
  });

  it("takes the cookie of A.3, whose reserved octets are others', over IPv4", () => {
    const query = queryWith(hex("fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5"));
    expect(new Cookies(secret).isValid(query, clientAt("203.0.113.203"), 1_559_727_985)).toBe(true);
  });

  it("takes cookies over IPv6 (A.4)", () => {
    const query = queryWith(hex("22681ab97d52c298010000005cf7c57926556bd0934c72f8"));
    const cookies = new Cookies(hex("dd3bdf9344b678b185a6f5cb60fca715"));
    const client = clientAt("2001:db8:220:1:59de:d0f4:8769:82b8");
    expect(cookies.isValid(query, client, 1_559_741_961)).toBe(true);
    expect(new Cookies(secret).isValid(query, client, 1_559_741_961)).toBe(false);
  });

  it.each([
    ["another client", "203.0.113.7", 0],
    ["older than an hour", "198.51.100.100", 3_601],
    ["more than five minutes ahead", "198.51.100.100", -301],
  ])("refuses one of %s", (_what, address, ageSeconds) => {
    const query = queryWith(hex("2464c4abcf10c957010000005cf79f111f8130c3eee29480"));
    expect(new Cookies(secret).isValid(query, clientAt(address), 1_559_731_985 + ageSeconds)).toBe(false);
  });
});

describe("client addresses", () => {
  it.each([
    ["192.0.2.1", "c0000201"],
    ["::ffff:192.0.2.1", "c0000201"],
    ["::1", "00000000000000000000000000000001"],
    ["2001:db8::5", "20010db8000000000000000000000005"],
    ["2001:db8:1:2:3:4:5:6", "20010db8000100020003000400050006"],
    ["fe80::1%eth0", "fe800000000000000000000000000001"],
    ["64:ff9b::192.0.2.1", "0064ff9b0000000000000000c0000201"],
    ["::", "00000000000000000000000000000000"],
  ])("%s", (text, expected) => {
    const client = clientAt(text);
    expect(Buffer.from(client.address.subarray(0, client.addressOctets)).toString("hex")).toBe(expected);
  });

  it("tells loopback", () => {
    const loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
    expect(loopback.map((text) => clientAt(text).isLoopback)).toEqual([true, true, true, true]);
    expect(["128.0.0.1", "::2", "2001:db8::1"].map((text) => clientAt(text).isLoopback)).toEqual([false, false, false]);
  });
});
