/**
 * What a sender domain publishes so that its mail is believed: which records there should be, and whether those that
 * were found do (RFC 7208 SPF, RFC 6376 DKIM, RFC 7489 DMARC).
 */

/** A record that should be there. */
export interface ExpectedRecord {
  /** Absolute, without the final dot. */
  readonly name: string;
  readonly type: "TXT" | "MX";
  /** Of an MX without the preference. */
  readonly value: string;
  /** Of an MX. */
  readonly preference?: number;
}

/**
 * Mail leaves with a return path in the bounce domain, so that receivers check its SPF; many look at the sender's too.
 * @param texts of the domain: a policy that is there is kept, and includes ours besides
 */
export function expectedSpf(domain: string, bounceDomain: string, texts: readonly string[]): ExpectedRecord {
  const [policy = "v=spf1 ~all"] = spfPolicies(texts);
  return { name: domain, type: "TXT", value: withInclude(policy, bounceDomain) };
}

export function expectedDkim(domain: string, selector: string, value: string): ExpectedRecord {
  return { name: `${selector}._domainkey.${domain}`, type: "TXT", value };
}

/** `p=none` asks for nothing yet; a stricter policy is the owner's to choose. */
export function expectedDmarc(domain: string): ExpectedRecord {
  return { name: `_dmarc.${domain}`, type: "TXT", value: "v=DMARC1; p=none" };
}

export function expectedBounceMx(bounceDomain: string, hostname: string): ExpectedRecord {
  return { name: bounceDomain, type: "MX", value: hostname, preference: 10 };
}

/** The bounce domain allows the machine that sends, by its name. */
export function expectedBounceSpf(bounceDomain: string, hostname: string): ExpectedRecord {
  return { name: bounceDomain, type: "TXT", value: `v=spf1 a:${hostname} ~all` };
}

/** Those of a name's texts that are SPF policies (RFC 7208 §4.5). */
export function spfPolicies(texts: readonly string[]): string[] {
  return texts.filter((text) => /^v=spf1( |$)/i.test(text));
}

/**
 * Whether a policy lets mail through that the bounce domain lets through: it includes or redirects to it, or allows
 * the sending host by name. RFC 7208 §4.5: of several policies none counts.
 */
export function spfAllows(texts: readonly string[], bounceDomain: string, hostname: string): boolean {
  const [policy, another] = spfPolicies(texts);
  if (policy === undefined || another !== undefined) return false;
  const terms = policy.toLowerCase().split(/\s+/).slice(1);
  return [`include:${bounceDomain}`, `redirect=${bounceDomain}`, `a:${hostname}`].some((wanted) =>
    terms.some((term) => term.replace(/^\+/, "").replace(/\.$/, "") === wanted),
  );
}

/** The policy with our include in it, before what it says of all others. */
function withInclude(policy: string, bounceDomain: string): string {
  const terms = policy.trim().split(/\s+/);
  const last = terms.findIndex((term) => /^([-~?+]?all$|redirect=)/i.test(term));
  terms.splice(last < 0 ? terms.length : last, 0, `include:${bounceDomain}`);
  return terms.join(" ");
}

/** RFC 6376 §3.6.1: the published key is ours when its `p=` is; folding white space in it says nothing. */
export function dkimMatches(texts: readonly string[], value: string): boolean {
  const own = publicKeyOf(value);
  return own !== undefined && texts.some((text) => publicKeyOf(text) === own);
}

function publicKeyOf(record: string): string | undefined {
  return tagsOf(record).get("p")?.replace(/\s+/g, "") || undefined;
}

/** RFC 7489 §6.6.3: one record that begins with v=DMARC1 and has a policy; of several none counts. */
export function dmarcPolicy(texts: readonly string[]): string | undefined {
  const [record, another] = texts.filter((text) => /^v\s*=\s*DMARC1\s*(;|$)/.test(text));
  if (record === undefined || another !== undefined) return undefined;
  const policy = tagsOf(record).get("p")?.toLowerCase();
  return policy !== undefined && ["none", "quarantine", "reject"].includes(policy) ? policy : undefined;
}

/** RFC 7489 §6.6.3: where a domain has no record, that of the domains above it counts; longest first, no top level. */
export function dmarcNames(domain: string): string[] {
  const labels = domain.split(".");
  return labels.slice(0, -1).map((_, index) => `_dmarc.${labels.slice(index).join(".")}`);
}

function tagsOf(record: string): Map<string, string> {
  return new Map(
    record.split(";").flatMap((tag) => {
      const at = tag.indexOf("=");
      return at < 0 ? [] : [[tag.slice(0, at).trim(), tag.slice(at + 1).trim()] as const];
    }),
  );
}
