import { createSocket } from "node:dgram";
import * as dnsPacket from "dns-packet";
import type { DnsAnswer } from "./dns-client.ts";
import { type Peer, type PeerPlan, startPeer } from "./peers-processes.ts";

/** Resolvers that apply policy zones; Knot Resolver reads a file, the others transfer. */
export const RESOLVERS = ["bind", "unbound", "recursor", "kresd"] as const;
export type PolicyResolver = (typeof RESOLVERS)[number];

export interface ResolverPeer {
  readonly program: string;
  readonly keepsKeys: boolean;
  /**
   * @param stanza as printed, or for Knot Resolver the path of the feed's file
   * @param upstream `host:port` of a server that answers for `upstreamZone`
   */
  readonly plan: (facts: ResolverFacts, folder: string, port: number) => PeerPlan;
}

export interface ResolverFacts {
  readonly stanza: string;
  readonly upstream: string;
  readonly upstreamZone: string;
}

export const RESOLVER_PEERS: { readonly [resolver in PolicyResolver]: ResolverPeer } = {
  bind: {
    program: "named",
    keepsKeys: true,
    plan: ({ stanza, upstream, upstreamZone }, folder, port) => {
      const [host, upstreamPort] = upstream.split(":");
      const policy = /^\/\/ in options: (response-policy .*)$/m.exec(stanza)?.[1];
      return {
        files: {
          "named.conf": `options { directory "${folder}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };
            pid-file none; recursion yes; allow-query { any; }; dnssec-validation no; session-keyfile none; empty-zones-enable no;
            notify no; serial-query-rate 1000; ${policy} };
            controls { };
            zone "${upstreamZone}" { type forward; forward only; forwarders { ${host} port ${upstreamPort}; }; };
            ${stanza}`,
        },
        command: ["named", "-g", "-c", `${folder}/named.conf`],
      };
    },
  },
  unbound: {
    program: "unbound",
    keepsKeys: false,
    plan: ({ stanza, upstream, upstreamZone }, folder, port) => ({
      files: {
        "unbound.conf": `server:\n  interface: 127.0.0.1\n  port: ${port}\n  chroot: ""\n  username: ""\n  directory: "${folder}"
  pidfile: ""\n  do-daemonize: no\n  use-syslog: no\n  logfile: ""\n  verbosity: 2\n  access-control: 127.0.0.0/8 allow
  do-not-query-localhost: no\n  local-zone: "test." nodefault\nremote-control:\n  control-enable: no
stub-zone:\n  name: "${upstreamZone}"\n  stub-addr: ${upstream.replace(":", "@")}\n  stub-no-cache: yes\n${stanza}\n`,
      },
      command: ["unbound", "-d", "-c", `${folder}/unbound.conf`],
    }),
  },
  recursor: {
    program: "pdns_recursor",
    keepsKeys: true,
    plan: ({ stanza, upstream, upstreamZone }, folder, port) => ({
      files: {
        "recursor.conf": `local-address=127.0.0.1\nlocal-port=${port}\nsocket-dir=${folder}\nsetuid=\nsetgid=\ndaemon=no
lua-config-file=${folder}/policy.lua\nforward-zones=${upstreamZone}=${upstream}\ndnssec=off\nsecurity-poll-suffix=
disable-packetcache=yes\nloglevel=6\nlog-common-errors=yes\nthreads=1\n`,
        "policy.lua": `${stanza}\n`,
      },
      command: ["pdns_recursor", `--config-dir=${folder}`],
    }),
  },
  kresd: {
    program: "kresd",
    keepsKeys: false,
    plan: ({ stanza: file, upstream, upstreamZone }, folder, port) => ({
      files: {
        "kresd.conf": `net.listen("127.0.0.1", ${port})\nmodules.load("policy")\ncache.size = 10 * MB\ntrust_anchors.remove(".")
policy.add(policy.rpz(policy.DENY, "${file}", false))
policy.add(policy.suffix(policy.STUB({"${upstream.replace(":", "@")}"}), policy.todnames({"${upstreamZone}."})))\n`,
      },
      command: ["kresd", "-n", "-c", `${folder}/kresd.conf`, folder],
    }),
  },
};

export function startResolver(resolver: PolicyResolver, port: number, facts: ResolverFacts): Promise<Peer> {
  return startPeer(resolver, port, (folder) => RESOLVER_PEERS[resolver].plan(facts, folder, port));
}

/** One question to a resolver, with RD; undefined when no answer comes. */
export function askResolver({ port }: Peer, name: string): Promise<DnsAnswer | undefined> {
  const query = dnsPacket.encode({
    type: "query",
    id: Math.floor(Math.random() * 65_536),
    flags: dnsPacket.RECURSION_DESIRED,
    questions: [{ name, type: "A" }],
  });
  return new Promise((resolve) => {
    const socket = createSocket("udp4");
    const finish = (answer?: DnsAnswer) => {
      clearTimeout(late);
      socket.close();
      resolve(answer);
    };
    const late = setTimeout(finish, 2_000);
    socket.on("error", () => finish());
    socket.on("message", (octets) => finish(dnsPacket.decode(octets)));
    socket.send(query, port, "127.0.0.1");
  });
}
