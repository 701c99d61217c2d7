import { useEffect, useState } from "preact/hooks";
import { Button } from "../components/button.tsx";
import { CheckField, TextField } from "../components/field.tsx";
import { ProblemNote } from "../components/problem.tsx";
import { useForm } from "../form.ts";
import { formatNumber } from "../format.ts";
import { queryOf, request } from "../http.ts";
import { texts } from "../texts.ts";
import type { ZoneRecord } from "./record.ts";
import { RECORD_FORMS } from "./record-forms.ts";
import "./dns.css";

/** An answer of the deployment's own name server. */
interface Lookup {
  readonly status: string;
  readonly flags: readonly string[];
  readonly answer: readonly AnswerRecord[];
  readonly authority: readonly AnswerRecord[];
  readonly additional: readonly AnswerRecord[];
  readonly server: string;
  readonly milliseconds: number;
  readonly stored: readonly AnswerRecord[];
}

/** A line of a master file, or its parts. */
type AnswerRecord = string | (Omit<ZoneRecord, "rr_prio"> & { readonly rr_prio?: string | null });

interface Question {
  readonly name: string;
  readonly type: string;
  readonly dnssec: boolean;
}

interface LookupBoxProps {
  readonly first: Question;
  /** Keeps the question in the page's address; one that comes from there is asked at once. */
  readonly onAsk?: (question: Question) => void;
}

/** Asks the name server over the wire, and shows what is stored beside what it says. */
export function LookupBox({ first, onAsk }: LookupBoxProps) {
  const { lookup: words } = texts().dns;
  const [found, setFound] = useState<Lookup>();
  const form = useForm(
    { ...first },
    (values) => request<Lookup>("GET", `/lookup${queryOf({ ...values, type: values.type.toUpperCase() })}`),
    (answer, asked) => {
      setFound(answer);
      onAsk?.(asked);
    },
  );
  useEffect(() => {
    if (onAsk && first.name !== "") void form.submit();
  }, []);
  const types = ["ANY", "SOA", "DNSKEY", ...RECORD_FORMS.map(({ type }) => type)];
  return (
    <div class="lookup">
      <form class="lookup-form" onSubmit={form.submit} noValidate>
        <TextField {...form.field("name")} label={words.name} mono autofocus />
        <TextField {...form.field("type")} label={words.type} suggestions={[...new Set(types)]} mono />
        <CheckField {...form.check("dnssec")} label={words.dnssec} />
        <Button submit kind="primary" icon="search" busy={form.busy} disabled={form.values.name.trim() === ""}>
          {words.ask}
        </Button>
      </form>
      <ProblemNote problem={form.problem} />
      {found && <LookupAnswer found={found} />}
    </div>
  );
}

function LookupAnswer({ found }: { readonly found: Lookup }) {
  const { lookup: words } = texts().dns;
  const facts = [
    [words.status, found.status],
    [words.flags, found.flags.join(" ")],
    [words.server, found.server],
    [words.took, words.milliseconds(formatNumber(found.milliseconds, 1))],
  ] as const;
  return (
    <div class="lookup-answer">
      <section class="section" aria-label={words.answer}>
        <h2>{words.answer}</h2>
        <dl class="facts">
          {facts.map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd class="mono">{value}</dd>
            </div>
          ))}
        </dl>
        {(["answer", "authority", "additional"] as const).map((section) => (
          <div key={section}>
            <h3>{words.sections[section]}</h3>
            <Records records={found[section]} none={words.noRecords} />
          </div>
        ))}
      </section>
      <section class="section" aria-label={words.stored}>
        <h2>{words.stored}</h2>
        <Records records={found.stored} none={words.nothingStored} />
      </section>
    </div>
  );
}

function Records({ records, none }: { readonly records: readonly AnswerRecord[]; readonly none: string }) {
  if (records.length === 0) return <p class="hint">{none}</p>;
  const lines = records.map((record) =>
    typeof record === "string"
      ? record
      : [record.name, record.ttl, record.type, record.rr_prio, record.value]
          .filter((part) => part !== null && part !== undefined)
          .join(" "),
  );
  return (
    <ul class="record-lines mono">
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  );
}
