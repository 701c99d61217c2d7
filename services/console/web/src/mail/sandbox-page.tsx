import { useState } from "preact/hooks";
import { Badge, type Tone } from "../components/badge.tsx";
import { Button } from "../components/button.tsx";
import { EmptyState } from "../components/empty-state.tsx";
import { Page } from "../components/page.tsx";
import { Table } from "../components/table.tsx";
import { usePages } from "../fetched.ts";
import { formatTime } from "../format.ts";
import { pathOf, queryOf } from "../http.ts";
import { texts } from "../texts.ts";
import { SourceDialog } from "./source-dialog.tsx";

interface SandboxMessage {
  readonly id: number;
  readonly from: string;
  readonly to: string;
  readonly subject: string;
  readonly received: string;
  readonly outcome: "accepted" | "bounced" | "full" | "complained";
}

const PAGE_SIZE = 100;
const REFRESH_MS = 5_000;

const TONES: { readonly [O in SandboxMessage["outcome"]]: Tone } = {
  accepted: "good",
  bounced: "bad",
  full: "warn",
  complained: "bad",
};

/** What arrived in the inbox that the stack runs for itself. */
export function SandboxPage() {
  const words = texts().mail.sandbox;
  const [opened, setOpened] = useState<SandboxMessage>();
  const pages = usePages<SandboxMessage, { messages: SandboxMessage[] }>("sandbox", {
    path: (before) => `/sandbox/messages${queryOf({ limit: PAGE_SIZE, before })}`,
    rows: ({ messages }) => messages,
    next: ({ messages }) => (messages.length < PAGE_SIZE ? undefined : String(messages.at(-1)?.id)),
    // A reader who paged on looks at older messages: those must not jump away.
    pauseMs: ({ length }) => (length <= PAGE_SIZE ? REFRESH_MS : undefined),
  });
  return (
    <Page title={words.title}>
      <p class="intro">{words.intro}</p>
      <Table<SandboxMessage>
        label={words.title}
        {...pages}
        rowKey={({ id }) => id}
        empty={
          <EmptyState icon="inbox" title={words.empty}>
            <p>{words.emptyHint}</p>
          </EmptyState>
        }
        columns={[
          { id: "received", label: words.received, cell: ({ received }) => formatTime(received), optional: true },
          { id: "from", label: words.from, cell: ({ from }) => from, optional: true },
          { id: "to", label: words.to, cell: ({ to }) => to },
          { id: "subject", label: words.subject, cell: ({ subject }) => subject, grows: true },
          {
            id: "outcome",
            label: words.outcome,
            cell: ({ outcome }) => <Badge tone={TONES[outcome]}>{words.outcomes[outcome]}</Badge>,
          },
          {
            id: "source",
            label: "",
            align: "end",
            cell: (message) => (
              <Button small onClick={() => setOpened(message)}>
                {words.source}
              </Button>
            ),
          },
        ]}
      />
      {opened && (
        <SourceDialog
          title={opened.subject}
          label={opened.to}
          path={`/sandbox/messages${pathOf(opened.id)}`}
          onClose={() => setOpened(undefined)}
        />
      )}
    </Page>
  );
}
