import { expect, test } from "vitest";
import { readNamedConf } from "../../../services/cli/named-conf.ts";

function read(files: Record<string, string>) {
  return readNamedConf("/etc/bind/named.conf", (path) => {
    const text = files[path];
    if (text === undefined) throw new Error(`no ${path}`);
    return text;
  });
}

test("gives primary zones of class IN with absolute paths, from includes and views too", () => {
  const zones = read({
    "/etc/bind/named.conf": `
      // one comment
      # another
      /* and
         a third */
      options { directory "/var/cache/bind"; forwarders { 192.0.2.1; 192.0.2.2 port 53; }; };
      include "/etc/bind/zones.conf";
      zone "one.example.org" { type primary; file "one.db"; allow-transfer { key "k"; }; };
      zone two.example.org in { type master; file "/srv/two.db"; };
      zone "three.example.org" { type secondary; file "three.db"; };
      zone "no-file.example.org" { type primary; };
      zone "four.example.org" CH { type primary; file "four.db"; };
      zone "." { type hint; file "root.hints"; };
      view "inside" { match-clients { any; }; zone "five.example.org" IN { type primary; file "five.db"; }; };`,
    "/etc/bind/zones.conf": 'zone "six.example.org" { type primary; file "six;db"; };',
  });
  expect(zones).toEqual({
    ok: true,
    value: [
      { name: "one.example.org", file: "/var/cache/bind/one.db" },
      { name: "two.example.org", file: "/srv/two.db" },
      { name: "no-file.example.org", file: undefined },
      { name: "five.example.org", file: "/var/cache/bind/five.db" },
      { name: "six.example.org", file: "/var/cache/bind/six;db" },
    ],
  });
});

test.each(["zone {", "zone a { type primary;", 'zone "a', "};", "}", "zone a"])("refuses %j", (text) => {
  expect(read({ "/etc/bind/named.conf": text }).ok).toBe(false);
});

test("refuses files that include one another without end", () => {
  expect(read({ "/etc/bind/named.conf": 'include "/etc/bind/named.conf";' }).ok).toBe(false);
});
