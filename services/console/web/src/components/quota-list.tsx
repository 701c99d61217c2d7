import { formatNumber, formatOctets } from "../format.ts";
import { texts } from "../texts.ts";

/** A quota as the DNS API shows it. */
export interface Quota {
  readonly name: string;
  /** Null: no bound. */
  readonly allowed: number | null;
  /** Null where it is so much a minute, or at a time. */
  readonly used: number | null;
  readonly default: boolean;
}

/** What is used of what is allowed: a bar for each quota, in a warning colour from nine tenths on. */
export function QuotaList({ quotas }: { readonly quotas: readonly Quota[] }) {
  const { quotas: words } = texts().dns;
  const names: Readonly<Record<string, string>> = words.names;
  return (
    <ul class="bar-list">
      {quotas.map((quota) => (
        <li key={quota.name}>
          <span>{names[quota.name] ?? quota.name}</span>
          <span class="number">{describe(quota, words)}</span>
          {quota.used !== null && quota.allowed !== null && <Share used={quota.used} allowed={quota.allowed} />}
        </li>
      ))}
    </ul>
  );
}

/** The words beside the bar say the same. */
function Share({ used, allowed }: { readonly used: number; readonly allowed: number }) {
  const share = allowed === 0 ? Math.min(1, used) : Math.min(1, used / allowed);
  return (
    <span class={share >= NEARLY_FULL ? "bar nearly-full" : "bar"} aria-hidden="true">
      <span style={{ width: `${100 * share}%` }} />
    </span>
  );
}

const NEARLY_FULL = 0.9;

function describe(
  { name, allowed, used }: Quota,
  words: { readonly noBound: string; readonly usedOf: (used: string, allowed: string) => string },
): string {
  const format = (value: number) => (name === "octets" ? formatOctets(value) : formatNumber(value));
  const most = allowed === null ? words.noBound : format(allowed);
  return used === null ? most : words.usedOf(format(used), most);
}
