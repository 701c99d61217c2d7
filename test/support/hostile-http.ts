import { connect } from "node:net";
import { expect } from "vitest";

/** Sends octets as they are; resolves to all that comes back until the server closes. */
export function sendOctets(url: string, octets: string): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(octets, "latin1"));
    let received = "";
    socket.setEncoding("latin1").on("data", (text: string) => {
      received += text;
    });
    // What is refused half-way may be reset when the answer has been read.
    socket.on("error", (error) => (received === "" ? reject(error) : undefined));
    socket.on("close", () => resolve(received));
  });
}

/**
 * Sends each hostile request, and expects an answer that is no failure of ours and shows nothing of our code.
 * @param paths of operations that are there
 */
export async function expectNoFailure(url: string, paths: readonly string[], fields = ""): Promise<void> {
  for (const path of paths) {
    for (const [name, octets] of hostileRequests(path, fields)) {
      const answer = await sendOctets(url, octets);
      const what = `${name} at ${path}`;
      expect(answer, what).toMatch(name === TUNNEL ? /^HTTP\/1\.1 501 / : /^HTTP\/1\.1 [2-4]\d\d /);
      expect(answer, what).not.toMatch(/\.[jt]s:\d+|node_modules|node:internal/);
    }
  }
}

/** Nobody's tunnel goes through here. */
const TUNNEL = "CONNECT";

/**
 * Requests that are no HTTP, or that try what stands between, each with its name.
 * @param path of an operation that is there
 * @param fields header fields that every request has, such as a key, each with its line end
 */
function hostileRequests(path: string, fields = ""): [name: string, octets: string][] {
  const close = "Connection: close\r\n";
  const request = (line: string, more = "", body = "") =>
    `${line} HTTP/1.1\r\nHost: a.test\r\n${fields}${close}${more}\r\n${body}`;
  const chunk = "5\r\nabcde\r\n0\r\n\r\n";
  return [
    ["chunked and a length", request(`POST ${path}`, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunk)],
    ["chunked twice", request(`POST ${path}`, "Transfer-Encoding: chunked, chunked\r\n", chunk)],
    ["an unknown coding", request(`POST ${path}`, "Transfer-Encoding: xchunked\r\n", chunk)],
    ["chunked that is not last", request(`POST ${path}`, "Transfer-Encoding: chunked, gzip\r\n", chunk)],
    ["two lengths", request(`POST ${path}`, "Content-Length: 5\r\nContent-Length: 6\r\n", "abcdef")],
    ["two equal lengths", request(`POST ${path}`, "Content-Length: 5\r\nContent-Length: 5\r\n", "abcde")],
    ["a list of lengths", request(`POST ${path}`, "Content-Length: 5, 5\r\n", "abcde")],
    ["a signed length", request(`POST ${path}`, "Content-Length: +5\r\n", "abcde")],
    ["a bad chunk size", request(`POST ${path}`, "Transfer-Encoding: chunked\r\n", "zz\r\nabc\r\n0\r\n\r\n")],
    ["a folded field", request(`GET ${path}`, "X-A: b\r\n c\r\n")],
    ["a folded first field", `GET ${path} HTTP/1.1\r\n Host: a.test\r\n${close}\r\n`],
    ["a blank before the colon", request(`GET ${path}`, "X-A : b\r\n")],
    ["NUL in a field", request(`GET ${path}`, "X-A: b\0c\r\n")],
    ["NUL in a field's name", request(`GET ${path}`, "X\0A: b\r\n")],
    ["a bare CR in a field", request(`GET ${path}`, "X-A: b\rX-B: c\r\n")],
    ["a bare LF behind a field", request(`GET ${path}`, "X-A: b\nX-B: c\r\n")],
    ["a field of 100 kB", request(`GET ${path}`, `X-A: ${"x".repeat(100_000)}\r\n`)],
    ["10,000 fields", request(`GET ${path}`, "A: b\r\n".repeat(10_000))],
    ["1,000 short fields", request(`GET ${path}`, "A: b\r\n".repeat(1_000))],
    ["10,000 query parameters", request(`GET ${path}?${"a=b&".repeat(10_000)}`)],
    ["3,000 query parameters", request(`GET ${path}?${"a=b&".repeat(3_000)}`)],
    ["parameters named as prototypes are", request(`GET ${path}?__proto__=a&constructor=b&a[b]=c&a=d&a=e`)],
    ["a bad escape in the query", request(`GET ${path}?a=%&b=%zz&c=%ff%fe&%00=%00`)],
    ["%00 in the path", request(`GET ${path}%00`)],
    ["%00 in a parameter of the path", request(`GET ${path}/%00`)],
    ["an encoded way up", request(`GET ${path}/%2e%2e%2f%2e%2e%2fetc%2fpasswd`)],
    ["a way up", request(`GET ${path}/../../../../etc/passwd`)],
    ["an encoded backslash", request(`GET ${path}/..%5c..%5cetc%5cpasswd`)],
    ["slashes before the path", request(`GET //${path}`)],
    ["slashes behind the path", request(`GET ${path}////`)],
    ["nothing but slashes", request("GET //")],
    ["invalid UTF-8 in the path", request(`GET ${path}/%ff%fe`)],
    ["an overlong escape", request(`GET ${path}/%c0%ae%c0%ae`)],
    ["a lone surrogate", request(`GET ${path}/%ed%a0%80`)],
    ["a broken escape", request(`GET ${path}/%zz`)],
    ["half an escape", request(`GET ${path}/%`)],
    ["octets above ASCII in the target", request(`GET ${path}/\xff\xfe`)],
    ["a control in the target", request(`GET ${path}/\x01`)],
    ["a fragment", request(`GET ${path}#a`)],
    ["another scheme", request(`GET ftp://a.test${path}`)],
    ["an asterisk", request("OPTIONS *")],
    ["an asterisk with GET", request("GET *")],
    [TUNNEL, request("CONNECT a.test:80")],
    ["TRACE", request(`TRACE ${path}`)],
    ["an unknown method", request(`BREW ${path}`)],
    ["HTTP/2.0's preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["HTTP/0.9", `GET ${path}\r\n\r\n`],
    ["HTTP/1.2", `GET ${path} HTTP/1.2\r\nHost: a.test\r\n${close}\r\n`],
    ["an upgrade", request(`GET ${path}`, "Upgrade: h2c\r\nConnection: Upgrade\r\n")],
    ["TLS in clear", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03"],
    [
      "a charset that is none",
      request(`POST ${path}`, "Content-Type: application/json; charset=x\r\nContent-Length: 2\r\n", "{}"),
    ],
    ["a coding that is none", request(`POST ${path}`, "Content-Encoding: br\r\nContent-Length: 2\r\n", "{}")],
    ["a body that is no UTF-8", request(`POST ${path}`, "Content-Length: 4\r\n", '{"\xff"')],
    ["a body on GET that is no JSON", request(`GET ${path}`, "Content-Length: 4\r\n", "\0\0\0\0")],
    ["a deep body", request(`POST ${path}`, "Content-Length: 200000\r\n", "[".repeat(200_000))],
  ];
}
