import { CannotListen, formatBound } from "../platform/bind.ts";
import type { Config } from "../platform/config/config.ts";
import type { HostPort } from "../platform/config/config-values.ts";
import { type Addresses, type AddressName, firstAddress } from "../platform/service.ts";

/** Which setting each listener follows, which variable sets it, and whether it is spoken to by HTTP. */
export const LISTENERS = {
  mail_api: { setting: "mailApi", variable: "PALOMAR_MAIL_API_LISTEN", http: true },
  dns_api: { setting: "dnsApi", variable: "PALOMAR_DNS_API_LISTEN", http: true },
  dns_api_tls: { setting: "dnsApiTls", variable: "PALOMAR_DNS_API_TLS_LISTEN", http: false },
  console: { setting: "console", variable: "PALOMAR_CONSOLE_LISTEN", http: true },
  tracking: { setting: "tracking", variable: "PALOMAR_TRACKING_LISTEN", http: true },
  tracking_tls: { setting: "trackingTls", variable: "PALOMAR_TRACKING_TLS_LISTEN", http: false },
  dns: { setting: "dns", variable: "PALOMAR_DNS_LISTEN", http: false },
  dns_tls: { setting: "dnsTls", variable: "PALOMAR_DNS_TLS_LISTEN", http: false },
  dns_https: { setting: "dnsHttps", variable: "PALOMAR_DNS_HTTPS_LISTEN", http: false },
  submission: { setting: "submission", variable: "PALOMAR_SUBMISSION_LISTEN", http: false },
  submissions: { setting: "submissions", variable: "PALOMAR_SUBMISSIONS_LISTEN", http: false },
  mx: { setting: "mx", variable: "PALOMAR_MX_LISTEN", http: false },
  sandbox: { setting: "sandbox", variable: "PALOMAR_SANDBOX_LISTEN", http: false },
  metrics: { setting: "metrics", variable: "PALOMAR_METRICS_LISTEN", http: true },
} as const satisfies {
  [name in AddressName]: { setting: keyof Config["listen"]; variable: string; http: boolean };
};

/** What is said to the operator of a failure to listen: the variable that has the address, too. @returns undefined of another failure */
export function explainUnopened(error: unknown, listen: Config["listen"]): string | undefined {
  if (!(error instanceof CannotListen)) return undefined;
  const { host, port } = error.address;
  const isIts = ({ setting }: { readonly setting: keyof Config["listen"] }) =>
    listen[setting].some((one) => one.host === host && one.port === port);
  const listener = Object.values(LISTENERS).find(isIts);
  return listener ? `${listener.variable}: ${error.message}` : error.message;
}

/** Where the stack's listeners are, as far as this process has been told. */
export class AddressBook {
  readonly #config: Config;
  #known: Addresses = {};
  #expected: ReadonlySet<AddressName> | undefined;
  #waiting: (() => void)[] = [];

  constructor(config: Config) {
    this.#config = config;
  }

  learn(addresses: Addresses, expected: readonly AddressName[]): void {
    this.#known = { ...addresses };
    this.#expected = new Set(expected);
    for (const wake of this.#waiting.splice(0)) wake();
  }

  /** Its first address. Waits for a listener that is still to come; one that is no part of this stack is taken at its configured one. */
  async addressOf(name: AddressName): Promise<string> {
    for (;;) {
      const address = this.#known[name];
      if (address !== undefined) return firstAddress(address);
      if (this.#expected && !this.#expected.has(name)) return this.#configured(name);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #configured(name: AddressName): string {
    const { setting, http } = LISTENERS[name];
    const first: HostPort | undefined = this.#config.listen[setting][0];
    if (!first) throw new Error(`${LISTENERS[name].variable} is off`);
    const address = formatBound({ address: first.host, port: first.port });
    return http ? `http://${address}` : address;
  }
}
