/** Programs that speak DNS UPDATE or PowerDNS's API, and the formats of their configuration. */
const TOKEN_PROGRAMS = [
  "certbot",
  "lego-rfc2136",
  "lego-pdns",
  "external-dns",
  "terraform-powerdns",
  "terraform-dns",
  "octodns",
  "nsupdate",
] as const;
export type TokenProgram = (typeof TOKEN_PROGRAMS)[number];

/** What a program is told. */
export interface TokenFacts {
  /** A host or address of a name server, and the address of the API, as the program reaches them. */
  readonly server: string;
  readonly port: number;
  readonly apiUrl: string;
  readonly zone: string;
  readonly token: string | null;
  readonly tsig: { readonly name: string; readonly algorithm: string; readonly secret: string } | null;
}

/** Programs that a token's secrets are enough for. */
export function programsFor({ token, tsig }: Pick<TokenFacts, "token" | "tsig">): TokenProgram[] {
  return TOKEN_PROGRAMS.filter((program) => (SNIPPETS[program].by === "tsig" ? tsig : token) !== null);
}

/** What to paste, secrets included. @throws when the token has no secret of the kind that the program needs */
export function tokenSnippet(program: TokenProgram, { token, tsig, ...facts }: TokenFacts): string {
  const snippet = SNIPPETS[program];
  if (snippet.by === "tsig" && tsig) return snippet.text({ ...facts, ...tsig });
  if (snippet.by === "token" && token !== null) return snippet.text({ ...facts, token });
  throw new Error(`${program} has no use for this token`);
}

interface Place {
  readonly server: string;
  readonly port: number;
  readonly apiUrl: string;
  readonly zone: string;
}

type Key = NonNullable<TokenFacts["tsig"]>;

type Snippet =
  | { readonly by: "tsig"; readonly text: (facts: Place & Key) => string }
  | { readonly by: "token"; readonly text: (facts: Place & { readonly token: string }) => string };

const SNIPPETS: { readonly [program in TokenProgram]: Snippet } = {
  certbot: {
    by: "tsig",
    text: ({ server, port, name, algorithm, secret, zone }) => `# rfc2136.ini, chmod 600
dns_rfc2136_server = ${server}
dns_rfc2136_port = ${port}
dns_rfc2136_name = ${name}.
dns_rfc2136_secret = ${secret}
dns_rfc2136_algorithm = ${algorithm.toUpperCase()}

# certbot certonly --dns-rfc2136 --dns-rfc2136-credentials rfc2136.ini -d ${zone} -d '*.${zone}'
`,
  },
  "lego-rfc2136": {
    by: "tsig",
    text: ({ server, port, name, algorithm, secret, zone }) => `export RFC2136_NAMESERVER=${server}:${port}
export RFC2136_TSIG_ALGORITHM=${algorithm}.
export RFC2136_TSIG_KEY=${name}.
export RFC2136_TSIG_SECRET=${secret}
lego --dns rfc2136 -d '*.${zone}' -d ${zone} --email hostmaster@${zone} run
`,
  },
  "lego-pdns": {
    by: "token",
    text: ({ apiUrl, token, zone }) => `export PDNS_API_URL=${apiUrl}
export PDNS_API_KEY=${token}
lego --dns pdns -d '*.${zone}' -d ${zone} --email hostmaster@${zone} run
`,
  },
  "external-dns": {
    by: "token",
    text: ({ apiUrl, token, zone }) => `# arguments of external-dns
--provider=pdns
--pdns-server=${apiUrl}
--pdns-api-key=${token}
--domain-filter=${zone}
--txt-owner-id=external-dns
`,
  },
  "terraform-powerdns": {
    by: "token",
    text: ({ apiUrl, token, zone }) => `provider "powerdns" {
  server_url = "${apiUrl}"
  api_key    = "${token}"
}

resource "powerdns_record" "www" {
  zone    = "${zone}."
  name    = "www.${zone}."
  type    = "A"
  ttl     = 300
  records = ["192.0.2.1"]
}
`,
  },
  "terraform-dns": {
    by: "tsig",
    text: ({ server, port, name, algorithm, secret, zone }) => `provider "dns" {
  update {
    server        = "${server}"
    port          = ${port}
    key_name      = "${name}."
    key_algorithm = "${algorithm}"
    key_secret    = "${secret}"
  }
}

resource "dns_a_record_set" "www" {
  zone      = "${zone}."
  name      = "www"
  addresses = ["192.0.2.1"]
  ttl       = 300
}
`,
  },
  octodns: {
    by: "token",
    text: ({ apiUrl, token, zone }) => `providers:
  config:
    class: octodns.provider.yaml.YamlProvider
    directory: ./config
  palomar:
    class: octodns_powerdns.PowerDnsProvider
    host: ${hostOf(apiUrl)}
    port: ${portOf(apiUrl)}
    scheme: ${apiUrl.startsWith("https:") ? "https" : "http"}
    api_key: ${token}
zones:
  ${zone}.:
    sources: [config]
    targets: [palomar]
`,
  },
  nsupdate: {
    by: "tsig",
    text: ({ server, port, name, algorithm, secret, zone }) => `nsupdate -y ${algorithm}:${name}:${secret} <<EOF
server ${server} ${port}
zone ${zone}
update add www.${zone} 300 A 192.0.2.1
send
EOF
`,
  },
};

function hostOf(url: string): string {
  return /^https?:\/\/(\[[^\]]*\]|[^:/]*)/.exec(url)?.[1] ?? url;
}

function portOf(url: string): string {
  return /^https?:\/\/(?:\[[^\]]*\]|[^:/]*):(\d+)/.exec(url)?.[1] ?? (url.startsWith("https:") ? "443" : "80");
}
