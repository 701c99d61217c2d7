/** What the hostile neighbours know: where everything listens, and the one company and the one instance that are theirs. */
export interface Target {
  readonly dnsApi: string;
  readonly mailApi: string;
  readonly console: string;
  readonly tracking: string;
  /** `host:port` of the SMTP and DNS listeners. */
  readonly dns: string;
  readonly submission: string;
  readonly mx: string;
  readonly feedbackAddress: string;
  readonly company: { readonly resellerId: string; readonly crmId: string; readonly key: string };
  readonly instance: {
    readonly name: string;
    readonly key: string;
    readonly domain: string;
    readonly campaign: number;
    readonly campaignKey: string;
  };
}

/** How often each attack was tried, by its name and what came of it: an HTTP status, a reply code, an error's code. */
export class Tally {
  readonly counts: Record<string, Record<string, number>> = {};

  add(attack: string, outcome: string | number): void {
    const outcomes = this.counts[attack] ?? {};
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    this.counts[attack] = outcomes;
  }
}

/** Runs a step again and again until the time is over; what it returns, or the code of its error, is counted. */
export async function repeat(
  { tally, until }: { readonly tally: Tally; readonly until: number },
  attack: string,
  step: (turn: number) => Promise<string | number>,
): Promise<void> {
  for (let turn = 0; Date.now() < until; turn += 1) {
    const outcome = await step(turn).catch((error: NodeJS.ErrnoException) => error.code ?? error.message);
    tally.add(attack, outcome);
    // What is refused at once would be tried at the pace of this machine's loopback, which no network has.
    await new Promise((resolve) => setTimeout(resolve, LEAST_PAUSE_MS));
  }
}

const LEAST_PAUSE_MS = 2;

/** An address of the loopback network that nobody else uses: hostile clients are clients of their own. */
export function sourceAddress(network: number, client: number): string {
  return `127.${network}.${(client >> 8) & 0xff}.${client & 0xff}`;
}
