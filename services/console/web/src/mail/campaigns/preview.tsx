import { useEffect, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { TextField } from "../../components/field.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { useForm } from "../../form.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { instancePath } from "../addresses.ts";
import { MessageFrame } from "../message-frame.tsx";
import type { CampaignWithHtml } from "./campaign.ts";
import { Judgement } from "./judgement.tsx";

interface Rendered {
  readonly asunto: string;
  readonly html: string;
  readonly text: string;
  /** Whether the text goes on. */
  readonly text_cut: boolean;
}

interface PreviewProps {
  readonly instance: string;
  readonly campaign: CampaignWithHtml;
}

/** The message as a contact would get it, as wide as a desk's screen or a phone's. */
export function Preview({ instance, campaign }: PreviewProps) {
  const words = texts().mail.campaigns;
  const [rendered, setRendered] = useState<Rendered>();
  const [shape, setShape] = useState<"desktop" | "phone" | "text">("desktop");
  const form = useForm(
    { email: "" },
    ({ email }) =>
      request<Rendered>("POST", instancePath(instance, "campaigns", campaign.numid, "preview"), {
        body: email === "" ? {} : { email },
      }),
    setRendered,
  );
  // Drawn at first, and anew when the message was saved.
  const written = JSON.stringify([campaign.asunto, campaign.url, campaign.html]);
  useEffect(() => void form.submit(), [written]);
  return (
    <div class={`preview ${shape}`}>
      <form class="preview-head" onSubmit={form.submit} noValidate>
        <TextField {...form.field("email")} label={words.previewAs} placeholder={words.previewAsHint} type="email" />
        <Button submit icon="refresh" busy={form.busy}>
          {words.show}
        </Button>
        <select
          aria-label={words.width}
          value={shape}
          onChange={({ currentTarget }) => setShape(currentTarget.value as typeof shape)}
        >
          <option value="desktop">{words.desktop}</option>
          <option value="phone">{words.phone}</option>
          <option value="text">{words.text}</option>
        </select>
      </form>
      <ProblemNote problem={form.problem} />
      {rendered && (
        <>
          <p>
            <strong>{words.subject}:</strong> {rendered.asunto}
          </p>
          {shape === "text" ? (
            <>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
              <pre tabIndex={0}>{rendered.text}</pre>
              {rendered.text_cut && <p class="hint">{words.textCut}</p>}
            </>
          ) : (
            <MessageFrame title={words.preview} html={rendered.html} />
          )}
          <Judgement key={written} path={instancePath(instance, "campaigns", campaign.numid, "judge")} />
        </>
      )}
    </div>
  );
}
