import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import type { Tone } from "../../components/badge.tsx";
import { Button, LinkButton } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { Facts } from "../../components/facts.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page, Section } from "../../components/page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { formatNumber, formatTime } from "../../format.ts";
import { request } from "../../http.ts";
import { describeReason } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { eventReasonWords, eventWords } from "../event-words.ts";
import { SourceDialog } from "../source-dialog.tsx";
import {
  type Attempt,
  type AttemptPath,
  isUnderWay,
  type MessageEvent,
  type ReturnedReport,
  type Story,
} from "./message.ts";
import "./messages.css";
import { MessageStates } from "./messages-page.tsx";

const REFRESH_MS = 3_000;

/** The story of a message to one recipient, from acceptance to what was done with it. */
export function StoryPage({ instance, id }: { readonly instance: string; readonly id: string }) {
  const words = texts().mail.messages;
  const story = useFetched<Story>(instancePath(instance, "messages", id), (newest) =>
    newest && isUnderWay(newest) ? REFRESH_MS : undefined,
  );
  const { value } = story;
  return (
    <Page
      title={value?.recipient ?? id}
      crumbs={[{ label: words.title, href: mailPage(instance, "messages") }]}
      badges={value && <MessageStates message={value} />}
      actions={value && <StoryActions instance={instance} story={value} changed={story.reload} />}
    >
      <Loaded of={story}>
        {(told) => (
          <>
            <Waits story={told} />
            <About instance={instance} story={told} />
            <Section title={words.timeline}>
              <TimeLine instance={instance} story={told} />
            </Section>
          </>
        )}
      </Loaded>
    </Page>
  );
}

interface StoryProps {
  readonly instance: string;
  readonly story: Story;
}

function StoryActions({ instance, story, changed }: StoryProps & { readonly changed: () => void }) {
  const words = texts().mail.messages;
  const ask = (verb: "retry" | "cancel") => request("POST", instancePath(instance, "messages", story.id, verb));
  const retry = useAction(
    () => ask("retry"),
    () => {
      showToast(words.retried);
      changed();
    },
  );
  const [cancelling, setCancelling] = useState(false);
  return (
    <>
      {story.archived && (
        <LinkButton icon="mail" href={mailPage(instance, "sends", story.eeid, story.recipient, "message")}>
          {words.archived}
        </LinkButton>
      )}
      {isUnderWay(story) && (
        <>
          {!story.waits_for_limit && (
            <Button icon="refresh" busy={retry.busy} onClick={() => void retry.run()}>
              {words.retry}
            </Button>
          )}
          <Button kind="danger" onClick={() => setCancelling(true)}>
            {words.cancel}
          </Button>
          {cancelling && (
            <ConfirmDialog
              title={words.cancelTitle(story.recipient)}
              confirmLabel={words.cancelMessage}
              leaveLabel={texts().shell.close}
              confirm={() => ask("cancel")}
              done={() => {
                showToast(words.wasCancelled);
                changed();
              }}
              onClose={() => setCancelling(false)}
            >
              <p>{words.cancelHint}</p>
            </ConfirmDialog>
          )}
        </>
      )}
    </>
  );
}

/** Why it is not on its way, where it is not. */
function Waits({ story }: { readonly story: Story }) {
  const words = texts().mail.messages;
  if (!isUnderWay(story)) return null;
  const isStopped = story.paused !== null || story.destination_held !== null;
  const reasons = [
    story.sending && words.sending,
    story.paused !== null &&
      words.paused(formatTime(story.paused), story.pause_reason ? describeReason(story.pause_reason) : ""),
    story.destination_held !== null && words.held(formatTime(story.destination_held)),
    story.destination_left_alone_until !== null &&
      words.leftAlone(formatTime(story.destination_left_alone_until), story.destination_trouble ?? ""),
    story.paced_until !== null &&
      words.paced[story.paced_by ?? "provider"](story.paced_provider ?? "", formatTime(story.paced_until)),
    story.next_attempt !== null &&
      !isStopped &&
      story.paced_until === null &&
      (story.waits_for_limit ? words.waitsForLimit : words.next)(formatTime(story.next_attempt)),
  ].filter((reason) => reason !== false);
  return (
    <ul class="waits">
      {reasons.map((reason) => (
        <li key={reason}>{reason}</li>
      ))}
    </ul>
  );
}

function About({ instance, story }: StoryProps) {
  const words = texts().mail.messages;
  return (
    <>
      <Facts
        facts={[
          { label: words.subject, value: story.subject ?? "" },
          { label: words.sender, value: story.sender ?? "" },
          { label: words.creator, value: story.creator },
          { label: words.messageId, value: story.message_id ?? "" },
        ]}
      />
      <p>
        <a href={mailPage(instance, "sends", story.eeid)}>{words.send}</a>{" "}
        <a href={mailPage(instance, "campaigns", story.campaign)}>{words.campaign(String(story.campaign))}</a>{" "}
        <a href={mailPage(instance, "contacts", story.recipient, "profile")}>{words.contact}</a>
      </p>
      <CopyBlock label={words.eeid} text={story.eeid} />
    </>
  );
}

interface Entry {
  readonly at: string;
  readonly tone: Tone;
  readonly title: string;
  readonly more?: ComponentChildren;
}

function TimeLine({ instance, story }: StoryProps) {
  const words = texts().mail.messages;
  const [shown, setShown] = useState<ReturnedReport>();
  const entries: Entry[] = [
    { at: story.accepted, tone: "accent", title: words.wasAccepted },
    ...story.attempt_list.map(toAttemptEntry),
    ...story.events.filter(({ kind }) => kind !== "sent").map(toEventEntry),
    ...story.reports.map((report) => toReportEntry(report, () => setShown(report))),
  ];
  const inOrder = entries.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0));
  return (
    <>
      <ol class="time-line">
        {inOrder.map(({ at, tone, title, more }, index) => (
          <li key={`${at} ${index}`} class={tone}>
            <time dateTime={at}>{formatTime(at)}</time>
            <strong>{title}</strong>
            {more}
          </li>
        ))}
      </ol>
      {story.attempts > story.attempt_list.length && <p class="hint">{words.attemptsGone}</p>}
      {shown && (
        <SourceDialog
          title={reportTitle(shown)}
          label={shown.from || "<>"}
          path={instancePath(instance, "messages", story.id, "reports", shown.id)}
          onClose={() => setShown(undefined)}
        />
      )}
    </>
  );
}

function toReportEntry(report: ReturnedReport, show: () => void): Entry {
  const { showReport } = texts().mail.messages;
  return {
    at: report.received,
    tone: "quiet",
    title: reportTitle(report),
    more: (
      <Button small label={`${showReport}: ${formatTime(report.received)}`} onClick={show}>
        {showReport}
      </Button>
    ),
  };
}

function reportTitle({ kind }: ReturnedReport): string {
  const { reports } = texts().mail.messages;
  return reports[kind as keyof typeof reports] ?? reports.dsn;
}

const OUTCOME_TONES = { delivered: "good", deferred: "warn", bounced: "bad" } as const;

function toAttemptEntry({ at, attempt, outcome, duration_ms, reason, reply, path, session }: Attempt): Entry {
  const { mail } = texts();
  const words = mail.messages;
  return {
    at,
    tone: OUTCOME_TONES[outcome],
    title: words.attempt(String(attempt), words.outcomes[outcome]),
    more: (
      <>
        {reason !== "" && reason !== "undefined" && <span> {eventReasonWords(reason, mail)}</span>}
        <code class="said">{reply}</code>
        <span class="hint">
          {path === null ? words.noPath : describePath(path, session)} · {words.duration(formatNumber(duration_ms))}
        </span>
      </>
    ),
  };
}

function describePath(path: AttemptPath, hadSession: boolean): string {
  const { exchanger, address, source, tls, cipher, certificate, policy } = path;
  const words = texts().mail.messages;
  const unencrypted = hadSession ? words.inClear : words.noSession;
  const server = exchanger === address ? address : `${exchanger} (${address})`;
  return [
    words.way(server, source),
    tls === "" ? unencrypted : `${tls} ${cipher}`,
    tls !== "" && words.certificate(certificate),
    policy !== "" && policy.toUpperCase(),
  ]
    .filter(Boolean)
    .join(" · ");
}

const BAD_EVENTS = new Set(["hard-bounce", "soft-bounce", "complained", "invalidated", "not-sent"]);

function toEventEntry({ at, kind, machine, reason, words: said }: MessageEvent): Entry {
  const { mail } = texts();
  if (kind === "cancelled") return { at, tone: "quiet", title: mail.messages.wasCancelled };
  return {
    at,
    tone: BAD_EVENTS.has(kind) ? "bad" : machine ? "quiet" : "good",
    title: eventWords(kind, mail),
    more: (
      <>
        {machine && <span class="hint"> {mail.contacts.byMachine}</span>}
        {reason !== "" && <span> {eventReasonWords(reason, mail)}</span>}
        {said !== "" && <code class="said">{said}</code>}
      </>
    ),
  };
}
