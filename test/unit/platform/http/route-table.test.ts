import { describe, expect, it } from "vitest";
import { RouteTable } from "../../../../services/platform/http/route-table.ts";

describe("RouteTable", () => {
  const routes = new RouteTable<string>();
  routes.add("GET", "/", "home");
  routes.add("GET", "/rr/:domain", "list");
  routes.add("POST", "/rr/:domain", "create");
  routes.add("POST", "/rr/:domain/batch", "batch");
  routes.add("PUT", "/rr/:domain/:rr_id", "modify");

  it.each([
    ["/", [["home", {}]]],
    [
      "/rr/example.org",
      [
        ["list", { domain: "example.org" }],
        ["create", { domain: "example.org" }],
      ],
    ],
    ["/rr/a.test/7", [["modify", { domain: "a.test", rr_id: "7" }]]],
    ["/rr/a.test/7/", [["modify", { domain: "a.test", rr_id: "7" }]]],
    [
      "/rr/a.test/batch",
      [
        ["batch", { domain: "a.test" }],
        ["modify", { domain: "a.test", rr_id: "batch" }],
      ],
    ],
    ["/rr/0%2F25.2.0.192.in-addr.arpa/%C3%B1", [["modify", { domain: "0/25.2.0.192.in-addr.arpa", rr_id: "ñ" }]]],
    ["/rr/100%/7", [["modify", { domain: "100%", rr_id: "7" }]]],
    ["/RR/a.test/7", []],
    ["/rr//7", []],
    ["/rr", []],
    ["/rr/a.test/7/8", []],
  ])("%s", (path, expected) => {
    expect(routes.matches(path).map(({ target, params }) => [target, params])).toEqual(expected);
  });

  it("tells the methods apart", () => {
    expect(routes.matches("/rr/a.test").map(({ method }) => method)).toEqual(["GET", "POST"]);
  });
});

describe("a path with an open end", () => {
  const routes = new RouteTable<string>();
  routes.add("GET", "/v1/zones/:domain", "zone");
  routes.add("GET", "/v1/api/:whose/*path", "rest");

  it.each([
    ["/v1/zones/example.org/", [["zone", { domain: "example.org" }]]],
    ["/v1/api/one/a", [["rest", { whose: "one", path: "a" }]]],
    ["/v1/api/one/a/b%20c/d", [["rest", { whose: "one", path: "a/b c/d" }]]],
    ["/v1/api/one", []],
    ["/v1/api/one/", []],
    ["/v1/api//a", []],
    ["/v1/other/one/a", []],
  ])("%s leads to %j", (path, found) => {
    expect(routes.matches(path).map(({ target, params }) => [target, params])).toEqual(found);
  });
});
