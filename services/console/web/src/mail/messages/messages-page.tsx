import { useCallback, useState } from "preact/hooks";
import { Badge } from "../../components/badge.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { ListPage } from "../../components/list-page.tsx";
import { usePages } from "../../fetched.ts";
import { formatTime } from "../../format.ts";
import { API, queryOf } from "../../http.ts";
import { type Query, useQuery } from "../../query.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import "./messages.css";
import { MESSAGE_STATES, type Message, STATE_TONES } from "./message.ts";

const PAGE_SIZE = 50;
/** What is written into the filters, as the API calls it. */
const TYPED = ["recipient", "domain", "sender", "subject", "reply", "source", "campaign"] as const;
const MOMENTS = ["from", "until"] as const;

interface Body {
  readonly messages: readonly Message[];
  readonly next: string | null;
}

/** Messages to their recipients, newest first: what became of each. */
export function MessagesPage({ instance }: { readonly instance: string }) {
  const words = texts().mail.messages;
  const [query, change] = useQuery();
  const search = toSearch(query);
  const pages = usePages<Message, Body>(JSON.stringify([instance, search]), {
    path: (after) => instancePath(instance, "messages") + queryOf({ ...search, after, limit: PAGE_SIZE }),
    rows: ({ messages }) => messages,
    next: ({ next }) => next ?? undefined,
  });
  const onSearch = useCallback((text: string) => change({ q: text }), [change]);
  return (
    <ListPage<Message>
      words={words}
      icon="mail"
      list={pages}
      rowName={({ id }) => String(id)}
      narrowed={Object.keys(search).length > 0}
      search={{ label: words.search, value: query.q ?? "", onSearch }}
      toolbar={<Filters query={query} change={change} />}
      actions={
        <LinkButton
          icon="download"
          href={API + instancePath(instance, "messages", "export") + queryOf(search)}
          download="messages.csv"
        >
          {words.export}
        </LinkButton>
      }
      columns={[
        {
          id: "recipient",
          label: words.recipient,
          grows: true,
          cell: ({ id, recipient }) => <a href={mailPage(instance, "messages", id)}>{recipient}</a>,
        },
        { id: "subject", label: words.subject, grows: true, optional: true, cell: ({ subject }) => subject },
        { id: "state", label: words.state, cell: (message) => <MessageStates message={message} /> },
        { id: "accepted", label: words.accepted, cell: ({ accepted }) => formatTime(accepted) },
        {
          id: "reply",
          label: words.reply,
          grows: true,
          optional: true,
          cell: ({ reply }) => <span class="mono hint">{reply}</span>,
        },
      ]}
    >
      {pages.loadMore && !pages.loading && (
        <p class="search-on">
          {pages.rows.length === 0 && <span class="hint">{words.nothingSoFar}</span>}{" "}
          <Button icon="search" onClick={pages.loadMore}>
            {words.searchOn}
          </Button>
        </p>
      )}
    </ListPage>
  );
}

export function MessageStates({ message: { state, complained, waits_for_limit } }: { readonly message: Message }) {
  const words = texts().mail.messages;
  return (
    <>
      <Badge tone={STATE_TONES[state]}>{words.states[state]}</Badge>{" "}
      {waits_for_limit && <Badge tone="quiet">{words.limited}</Badge>}{" "}
      {complained && <Badge tone="bad">{texts().mail.events.queja}</Badge>}
    </>
  );
}

interface FiltersProps {
  readonly query: Query;
  readonly change: (changes: Readonly<Record<string, string | undefined>>) => void;
}

function Filters({ query, change }: FiltersProps) {
  const words = texts().mail.messages;
  const reasons = Object.entries(texts().mail.bounceReasons);
  // Not by the query any more: what is being written would close it.
  const [isOpen, setOpen] = useState([...TYPED, ...MOMENTS].some((name) => query[name]));
  return (
    <>
      <select
        aria-label={words.state}
        value={query.state ?? ""}
        onChange={({ currentTarget }) => change({ state: currentTarget.value })}
      >
        <option value="">{words.anyState}</option>
        {MESSAGE_STATES.map((state) => (
          <option key={state} value={state}>
            {words.states[state]}
          </option>
        ))}
      </select>
      <select
        aria-label={words.reason}
        value={query.reason ?? ""}
        onChange={({ currentTarget }) => change({ reason: currentTarget.value })}
      >
        <option value="">{words.anyReason}</option>
        {reasons.map(([reason, label]) => (
          <option key={reason} value={reason}>
            {label}
          </option>
        ))}
      </select>
      <details class="message-filters" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>{words.moreFilters}</summary>
        <div class="message-filter-fields">
          {[...TYPED, ...MOMENTS].map((name) => (
            <FilterField
              key={name}
              label={words.filters[name]}
              type={name === "from" || name === "until" ? "datetime-local" : name === "campaign" ? "number" : "text"}
              value={query[name] ?? ""}
              change={(value) => change({ [name]: value })}
            />
          ))}
        </div>
      </details>
    </>
  );
}

interface FilterFieldProps {
  readonly label: string;
  readonly type: "datetime-local" | "number" | "text";
  readonly value: string;
  readonly change: (value: string) => void;
}

/** A filter that is written; a moment without its date or its time filters nothing, and says so. */
function FilterField({ label, type, value, change }: FilterFieldProps) {
  const [isUnfinished, setUnfinished] = useState(false);
  return (
    <label>
      <span>{label}</span>
      <input
        {...{ type, value }}
        spellcheck={false}
        aria-invalid={isUnfinished}
        onInput={() => setUnfinished(false)}
        onBlur={({ currentTarget }) => setUnfinished(currentTarget.validity.badInput)}
        onChange={({ currentTarget }) => change(currentTarget.value.trim())}
      />
      {isUnfinished && (
        <span class="error" role="alert">
          {texts().problems.fillIn}
        </span>
      )}
    </label>
  );
}

/** The page's filters as the API takes them: moments in UTC, and what stands in the search field as what it looks like. */
function toSearch(query: Query): Readonly<Record<string, string>> {
  const q = query.q?.trim() ?? "";
  const given = ["state", "reason", ...TYPED].map((name) => [name, query[name] ?? ""] as const);
  const moments = MOMENTS.map((name) => [name, toMoment(query[name])] as const);
  const all = [...given, ...moments, ...(q === "" ? [] : [[kindOf(q), q] as const])];
  return Object.fromEntries(all.filter(([, value]) => value !== ""));
}

function toMoment(local: string | undefined): string {
  const moment = new Date(local ?? "");
  return Number.isNaN(moment.getTime()) ? "" : moment.toISOString();
}

/** An identifier, an address, or words of the subject. */
export function kindOf(text: string): "id" | "recipient" | "subject" {
  if (/^[0-9a-f]{8}-[0-9a-f-]{27}$/i.test(text) || /^<.*>$/.test(text) || /^b\+[a-z2-7]+\./i.test(text)) return "id";
  return /^[^@\s]+@[^@\s]+$/.test(text) ? "recipient" : "subject";
}
