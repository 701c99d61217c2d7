import { useEffect, useState } from "preact/hooks";
import { CopyBlock } from "../../components/copy.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Page } from "../../components/page.tsx";
import { Skeleton } from "../../components/table.tsx";
import { useFetched } from "../../fetched.ts";
import { formatOctets } from "../../format.ts";
import { texts } from "../../texts.ts";
import { instancePath, mailPage } from "../addresses.ts";
import { MessageFrame } from "../message-frame.tsx";
import { sourceText } from "../source-text.ts";
import "../mail.css";
import { type ReadableMessage, readMessage } from "./read-message.ts";

interface MessagePageProps {
  readonly instance: string;
  readonly eeid: string;
  readonly email: string;
}

/** The archived message that a recipient got, drawn without script or remote content, or as its octets. */
export function MessagePage({ instance, eeid, email }: MessagePageProps) {
  const words = texts().mail.sends;
  const source = useFetched<Uint8Array>(instancePath(instance, "messages", eeid, email));
  return (
    <Page
      title={email}
      crumbs={[
        { label: words.title, href: mailPage(instance, "sends") },
        { label: eeid.slice(0, 8), href: mailPage(instance, "sends", eeid) },
      ]}
    >
      <Loaded of={source}>{(octets) => <Message source={octets} />}</Loaded>
    </Page>
  );
}

function Message({ source }: { readonly source: Uint8Array }) {
  const words = texts().mail.sends;
  const [view, setView] = useState("message");
  const [message, setMessage] = useState<ReadableMessage>();
  useEffect(() => {
    let wanted = true;
    // What cannot be taken apart is still there as its source.
    readMessage(source).then(
      (read) => wanted && setMessage(read),
      () => wanted && setView("source"),
    );
    return () => {
      wanted = false;
    };
  }, [source]);
  return (
    <>
      <div class="toolbar">
        <select aria-label={words.view} value={view} onChange={({ currentTarget }) => setView(currentTarget.value)}>
          <option value="message">{words.message}</option>
          <option value="source">{words.source}</option>
        </select>
        <span class="hint">{words.safeHint}</span>
      </div>
      {view === "source" && <CopyBlock label={words.source} text={sourceText(source)} />}
      {view === "message" && (message ? <Read message={message} /> : <Skeleton />)}
    </>
  );
}

function Read({ message: { headers, html, text, attachments } }: { readonly message: ReadableMessage }) {
  const words = texts().mail.sends;
  return (
    <>
      <dl class="facts">
        {headers.map(([name, value]) => (
          <div key={name + value}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {attachments.length > 0 && (
          <div>
            <dt>{words.attachments}</dt>
            <dd>{attachments.map(({ name, octets }) => `${name} (${formatOctets(octets)})`).join(", ")}</dd>
          </div>
        )}
      </dl>
      {html === undefined ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <pre tabIndex={0}>{text ?? words.noText}</pre>
      ) : (
        <MessageFrame title={words.message} html={html} />
      )}
    </>
  );
}
