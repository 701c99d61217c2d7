import type { Secondary } from "../../services/core/dns/acl-stanzas.ts";
import { type Peer, type PeerPlan, startPeer } from "./peers-processes.ts";

/** How each secondary is run around the stanza that `palomar acl show` prints. */
export const SECONDARY_PEERS: { readonly [program in Secondary]: SecondaryPeer } = {
  bind: {
    program: "named",
    keepsKeys: true,
    plan: (stanza, folder, port, catalogs) => ({
      files: {
        "named.conf": `options { directory "${folder}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
          pid-file none; recursion no; dnssec-validation no; allow-transfer { any; }; session-keyfile none;
          notify no; masterfile-format text; min-refresh-time 1; min-retry-time 1; max-retry-time 2;
          startup-notify-rate 1000; serial-query-rate 1000;
          ${catalogs} };
          controls { };
          ${stanza}`,
      },
      command: ["named", "-g", "-c", `${folder}/named.conf`],
    }),
  },
  nsd: {
    program: "nsd",
    keepsKeys: true,
    // By default transfers wait up to a second for a reload. Before 4.12, NSD takes the first of two differences that one
    // reload applies as failed, and where both came in the same second asks for the whole zone.
    plan: (stanza, folder, port) => ({
      files: {
        "nsd.conf": `server:\n  ip-address: 127.0.0.1@${port}\n  zonesdir: "${folder}"\n  database: ""\n  username: ""
  pidfile: "${folder}/nsd.pid"\n  xfrdfile: "${folder}/xfrd.state"\n  zonelistfile: "${folder}/zone.list"
  xfrdir: "${folder}"\n  verbosity: 2\n  xfrd-reload-timeout: 0\nremote-control:\n  control-enable: no\n${allowAxfr(stanza, "  provide-xfr: 127.0.0.1 NOKEY")}\n`,
      },
      command: ["nsd", "-d", "-c", `${folder}/nsd.conf`],
    }),
  },
  knot: {
    program: "knotd",
    keepsKeys: true,
    plan: (stanza, folder, port) => ({
      files: {
        "knot.conf": `server:\n  listen: 127.0.0.1@${port}\n  rundir: "${folder}"\ndatabase:\n  storage: "${folder}"
acl:\n  - id: test-transfer\n    address: 127.0.0.1\n    action: transfer
template:\n  - id: default\n    storage: "${folder}"\n    acl: test-transfer
log:\n  - target: stderr\n    any: info\n${stanza.replace(/^( {4}acl:) (.*)$/gm, "$1 [$2, test-transfer]")}\n`,
      },
      command: ["knotd", "-c", `${folder}/knot.conf`],
    }),
  },
  pdns: {
    program: "pdns_server",
    keepsKeys: true,
    plan: (stanza, folder, port) => ({
      files: {
        "pdns.conf": `launch=gsqlite3\ngsqlite3-dnssec=yes\ngsqlite3-database=${folder}/pdns.sqlite3\nlocal-address=127.0.0.1\nlocal-port=${port}
secondary=yes\nxfr-cycle-interval=1\nallow-axfr-ips=127.0.0.0/8\nsocket-dir=${folder}\nsetuid=\nsetgid=\nsecurity-poll-suffix=
guardian=no\ndaemon=no\nloglevel=5\nlog-dns-queries=no\ncache-ttl=0\nquery-cache-ttl=0\nnegquery-cache-ttl=0\nzone-cache-refresh-interval=0\n`,
        "commands.sh": stanza.replaceAll(/^pdnsutil/gm, `pdnsutil --config-dir=${folder}`),
      },
      before: [
        [
          "sh",
          "-c",
          `sqlite3 ${folder}/pdns.sqlite3 < /usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql || python3 - <<'END'
import sqlite3
db = sqlite3.connect("${folder}/pdns.sqlite3")
db.executescript(open("/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql").read())
END`,
        ],
        ["sh", "-e", `${folder}/commands.sh`],
      ],
      command: ["pdns_server", `--config-dir=${folder}`],
    }),
  },
  unbound: {
    program: "unbound",
    keepsKeys: false,
    plan: (stanza, folder, port) => ({
      files: {
        "unbound.conf": `server:\n  interface: 127.0.0.1@${port}\n  port: ${port}\n  chroot: ""\n  username: ""\n  directory: "${folder}"
  pidfile: ""\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""\n  verbosity: 2\n  access-control: 127.0.0.0/8 allow\n  do-not-query-localhost: no
  module-config: "iterator"\nremote-control:\n  control-enable: no\n${stanza}\n`,
      },
      command: ["unbound", "-d", "-c", `${folder}/unbound.conf`],
    }),
  },
};

export interface SecondaryPeer {
  readonly program: string;
  /** Whether it can sign its requests. */
  readonly keepsKeys: boolean;
  /** @param catalogs for BIND, the option that a catalog takes */
  readonly plan: (stanza: string, folder: string, port: number, catalogs: string) => PeerPlan;
}

/** Starts a secondary with a stanza as it was printed. */
export function startSecondary(secondary: Secondary, port: number, stanza: string): Promise<Peer> {
  const catalogs = /^\/\/ in options: (catalog-zones .*)$/m.exec(stanza)?.[1] ?? "";
  return startPeer(secondary, port, (folder) => SECONDARY_PEERS[secondary].plan(stanza, folder, port, catalogs));
}

/** NSD gives zones away only to whom each names. */
function allowAxfr(stanza: string, line: string): string {
  return stanza.replace(/^(pattern:\n.*\n)/m, `$1${line}\n`);
}
