import { type Peer, type PeerPlan, startPeer } from "./peers-processes.ts";

/** Servers that answer from master files, to be asked the same as ours. */
export const AUTHORITATIVE_PEERS: { readonly [name: string]: AuthoritativePeer } = {
  bind: {
    program: "named",
    plan: (zones, folder, port) => ({
      files: {
        ...zoneFiles(zones),
        "named.conf": `options { directory "${folder}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
          pid-file none; recursion no; minimal-responses yes; zero-no-soa-ttl no; session-keyfile none; dnssec-validation no; notify no; };
          controls { };
          ${zones.map(({ name }) => `zone "${name}" { type primary; check-names ignore; file "${name}.zone"; };`).join("\n")}`,
      },
      command: ["named", "-g", "-n", "1", "-c", `${folder}/named.conf`],
    }),
  },
  knot: {
    program: "knotd",
    plan: (zones, folder, port) => ({
      files: {
        ...zoneFiles(zones),
        "knot.conf": `server:\n  listen: 127.0.0.1@${port}\n  rundir: "${folder}"\ndatabase:\n  storage: "${folder}"
template:\n  - id: default\n    storage: "${folder}"\n    file: "%s.zone"\n    zonefile-sync: -1\n    journal-content: none
zone:\n${zones.map(({ name }) => `  - domain: ${name}\n`).join("")}`,
      },
      command: ["knotd", "-c", `${folder}/knot.conf`],
    }),
  },
  nsd: {
    program: "nsd",
    plan: (zones, folder, port) => ({
      files: {
        ...zoneFiles(zones),
        "nsd.conf": `server:\n  ip-address: 127.0.0.1@${port}\n  server-count: 1\n  zonesdir: "${folder}"\n  database: ""
  username: ""\n  chroot: ""\n  pidfile: "${folder}/nsd.pid"\n  xfrdfile: "${folder}/xfrd.state"\n  zonelistfile: "${folder}/zone.list"
  minimal-responses: yes\nremote-control:\n  control-enable: no
${zones.map(({ name }) => `zone:\n  name: ${name}\n  zonefile: ${name}.zone\n`).join("")}`,
      },
      command: ["nsd", "-d", "-c", `${folder}/nsd.conf`],
    }),
  },
};

export interface AuthoritativePeer {
  readonly program: string;
  readonly plan: (zones: readonly ServedZone[], folder: string, port: number) => PeerPlan;
}

/** A zone as a master file with absolute names; the name is without the final dot. */
export interface ServedZone {
  readonly name: string;
  readonly text: string;
}

export function startAuthoritative(name: string, port: number, zones: readonly ServedZone[]): Promise<Peer> {
  return startPeer(name, port, (folder) => AUTHORITATIVE_PEERS[name]!.plan(zones, folder, port));
}

function zoneFiles(zones: readonly ServedZone[]): Record<string, string> {
  return Object.fromEntries(zones.map(({ name, text }) => [`${name}.zone`, text]));
}
