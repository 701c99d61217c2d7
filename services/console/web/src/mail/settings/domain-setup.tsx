import { useState } from "preact/hooks";
import type { Sentence } from "../../../../../core/sentences.ts";
import { useAction } from "../../action.ts";
import { Badge } from "../../components/badge.tsx";
import { Button } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { Difference } from "../../components/difference.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Section } from "../../components/page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import { DomainWishes, type Wishes } from "./domain-wishes.tsx";

interface Item {
  readonly part: string;
  readonly name: string;
  readonly type: string;
  readonly action: "keep" | "add" | "modify" | "remove" | "ask";
  readonly before: string | null;
  readonly after: string | null;
  readonly fault: { readonly kind: string; readonly at: string } | null;
  readonly spf_lookups: number | null;
  /** Where it would be written to. */
  readonly zone: string | null;
}

interface Key {
  readonly selector: string;
  readonly algorithm: string;
  readonly state: "new" | "signing" | "old" | "done";
}

interface Proposal extends Wishes {
  readonly items: readonly Item[];
  readonly keys: readonly Key[];
  readonly fingerprint: string;
  readonly checked_at: string | null;
  readonly zone_file: string;
  readonly domain_connect: object;
}

interface DomainSetupProps {
  readonly instance: string;
  readonly domain: string;
}

/** What a sender domain should publish: proposed when somebody asks, as it looks at other people's servers. */
export function DomainSetup({ instance, domain }: DomainSetupProps) {
  const words = texts().mail.domains.setup;
  const [isProposed, setProposed] = useState(false);
  if (isProposed) return <ProposedSetup instance={instance} domain={domain} />;
  return (
    <Section title={words.title} hint={words.hint}>
      <Button icon="search" onClick={() => setProposed(true)}>
        {words.propose}
      </Button>
    </Section>
  );
}

function ProposedSetup({ instance, domain }: DomainSetupProps) {
  const words = texts().mail.domains.setup;
  const path = instancePath(instance, "domains", domain);
  const [flatten, setFlatten] = useState(false);
  const proposed = useFetched<Proposal>(`${path}/setup?flatten=${flatten}`);
  const agree = useAction(
    (fingerprint: string) =>
      request<{ written: readonly Item[]; refused: readonly { zone: string; reason: Sentence }[] }>(
        "POST",
        `${path}/setup`,
        { body: { fingerprint, flatten } },
      ),
    ({ written, refused }) => {
      if (refused.length === 0) showToast(words.agreed(formatNumber(written.length)));
      else
        showToast(
          words.refused(refused.map(({ zone, reason }) => `${zone} (${describeReason(reason)})`).join(", ")),
          "bad",
        );
      proposed.reload();
    },
  );
  const look = useAction(
    () => request("POST", `${path}/check`),
    () => proposed.reload(),
  );
  return (
    <Section
      title={words.title}
      hint={words.hint}
      actions={
        <Button small icon="refresh" busy={look.busy} onClick={() => void look.run()}>
          {words.look}
        </Button>
      }
    >
      <Loaded of={proposed}>
        {(proposal) => (
          <div class="stack">
            <Proposed proposal={proposal} busy={agree.busy} agree={(fingerprint) => void agree.run(fingerprint)} />
            <label>
              <input type="checkbox" checked={flatten} onChange={() => setFlatten(!flatten)} /> {words.flatten}
            </label>
            <DomainWishes wishes={proposal} path={path} changed={() => void look.run()} />
            <Keys keys={proposal.keys} path={path} reload={proposed.reload} />
            <p class="hint">
              {proposal.checked_at === null ? words.never : words.checkedAt(formatTime(proposal.checked_at))}
            </p>
          </div>
        )}
      </Loaded>
    </Section>
  );
}

interface ProposedProps {
  readonly proposal: Proposal;
  readonly busy: boolean;
  readonly agree: (fingerprint: string) => void;
}

function Proposed({ proposal, busy, agree }: ProposedProps) {
  const words = texts().mail.domains.setup;
  const changes = proposal.items.filter(({ action }) => action !== "keep" && action !== "ask");
  const here = changes.filter(({ zone }) => zone !== null);
  const asked = proposal.items.filter(({ action }) => action === "ask");
  const isElsewhere = changes.length > here.length;
  const kept = proposal.items.filter(({ action }) => action === "keep");
  return (
    <>
      {changes.length + asked.length === 0 && <p>{words.nothing}</p>}
      {here.length > 0 && (
        <>
          <h3>{words.written}</h3>
          <ItemsDifference items={here} />
          <Button kind="primary" icon="check" busy={busy} onClick={() => agree(proposal.fingerprint)}>
            {words.agree}
          </Button>
        </>
      )}
      {isElsewhere && (
        <>
          <h3>{words.elsewhere}</h3>
          <p class="hint">{words.elsewhereHint}</p>
          <ItemsDifference items={changes.filter(({ zone }) => zone === null)} />
          <CopyBlock label={words.zoneFile} text={proposal.zone_file} />
          <CopyBlock label={words.domainConnect} text={JSON.stringify(proposal.domain_connect, null, 2)} />
        </>
      )}
      {asked.length > 0 && <ItemList title={words.asked} items={asked} />}
      {kept.length > 0 && <ItemList title={words.kept} items={kept} />}
    </>
  );
}

function ItemsDifference({ items }: { readonly items: readonly Item[] }) {
  const line = ({ name, type }: Item, value: string) => `${name} ${type} ${value}`;
  const deleted = items.flatMap((item) =>
    item.before !== null && item.action !== "add" ? [line(item, item.before)] : [],
  );
  const added = items.flatMap((item) => (item.after !== null ? [line(item, item.after)] : []));
  return (
    <div class="agreed-difference">
      <Difference deleted={deleted} added={added} counted={false} />
    </div>
  );
}

function ItemList({ title, items }: { readonly title: string; readonly items: readonly Item[] }) {
  const words = texts().mail.domains.setup;
  const faults: Readonly<Record<string, string>> = words.faults;
  return (
    <>
      <h3>{title}</h3>
      <ul class="check-list">
        {items.map(({ part, name, type, action, after, before, fault, spf_lookups }) => (
          <li key={`${part} ${name} ${type}`}>
            <span class="mono">
              {name} {type}{" "}
              {spf_lookups !== null && <Badge tone="quiet">{words.lookups(formatNumber(spf_lookups))}</Badge>}
            </span>
            <span class="hint mono">{(action === "keep" ? after : before) ?? ""}</span>
            {fault && (
              <span>
                <Badge tone="warn">{faults[fault.kind] ?? fault.kind}</Badge> <span class="mono">{fault.at}</span>
              </span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

interface KeysProps {
  readonly keys: readonly Key[];
  readonly path: string;
  readonly reload: () => void;
}

function Keys({ keys, path, reload }: KeysProps) {
  const words = texts().mail.domains.setup;
  const rotate = useAction(
    () => request("POST", `${path}/rotation`),
    () => {
      showToast(words.rotated);
      reload();
    },
  );
  return (
    <>
      <h3>{words.keys}</h3>
      <ul class="check-list">
        {keys.map(({ selector, algorithm, state }) => (
          <li key={selector}>
            <span>
              <span class="mono">{selector}</span> {algorithm}{" "}
              <Badge tone={state === "signing" ? "good" : "quiet"}>{words.keyStates[state]}</Badge>
            </span>
          </li>
        ))}
      </ul>
      <Button small icon="refresh" busy={rotate.busy} onClick={() => void rotate.run()}>
        {words.rotate}
      </Button>
    </>
  );
}
