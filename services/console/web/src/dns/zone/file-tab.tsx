import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Button, LinkButton } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { TextArea } from "../../components/field.tsx";
import { FileChoice } from "../../components/file-choice.tsx";
import { Loaded } from "../../components/loaded.tsx";
import { Section } from "../../components/page.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { useForm } from "../../form.ts";
import { formatNumber } from "../../format.ts";
import { API, queryOf, request } from "../../http.ts";
import { keptDraft, useKeptDraft } from "../../kept-drafts.ts";
import { texts } from "../../texts.ts";
import { dnsApi, resellerApi } from "../paths.ts";
import type { ZonePreview } from "../record.ts";
import { PreviewDifference } from "./preview-difference.tsx";
import type { ZoneTabProps } from "./zone-tab.ts";

/** Larger files are offered for download; on a page they help nobody. */
const SHOWN_CHARACTERS = 200_000;

/** The zone as a master file: to read, to keep, to put another in its place. */
export function FileTab({ reseller, soa, changed }: ZoneTabProps) {
  const { file: words } = texts().dns;
  const path = dnsApi(reseller, "zone_file", soa.domain);
  const current = useFetched<string>(path);
  const draftKey = `zone-file ${reseller} ${soa.domain}`;
  const [draft, setDraft] = useState(keptDraft<string>(draftKey) ?? "");
  const replaced = () => {
    setDraft("");
    current.reload();
    changed();
  };
  return (
    <>
      <Section
        title={words.replace}
        hint={words.replaceHint}
        actions={
          <>
            <FileChoice
              label={words.choose}
              accept=".zone,.db,.txt,text/plain,text/dns"
              onFile={async (file) => setDraft(await file.text())}
            />
            <Button disabled={current.value === undefined} onClick={() => setDraft(current.value ?? "")}>
              {words.edit}
            </Button>
          </>
        }
      >
        <Replacement
          key={draft}
          reseller={reseller}
          domain={soa.domain}
          text={draft}
          keep={{ key: draftKey, unless: current.value }}
          onDone={replaced}
        />
      </Section>
      <Section
        title={words.current}
        hint={words.currentHint}
        actions={
          <LinkButton icon="download" href={API + path} download={`${soa.domain}.zone`}>
            {words.download}
          </LinkButton>
        }
      >
        <Loaded of={current}>
          {(text) => (
            <>
              {text.length > SHOWN_CHARACTERS && <p class="note warn">{words.shownInPart}</p>}
              <CopyBlock label={soa.domain} text={text.slice(0, SHOWN_CHARACTERS)} />
            </>
          )}
        </Loaded>
      </Section>
    </>
  );
}

interface ReplacementProps {
  readonly reseller: string;
  readonly domain: string;
  readonly text: string;
  /** Where what is written is kept, unless it is what the zone is. */
  readonly keep: { readonly key: string; readonly unless: string | undefined };
  readonly onDone: () => void;
}

/** A master file, what it would change, and the button that puts it in place. */
function Replacement({ reseller, domain, text, keep, onDone }: ReplacementProps) {
  const { file: words } = texts().dns;
  // What was looked at: an edit afterwards asks for another look.
  const [seen, setSeen] = useState<{ text: string; preview: ZonePreview }>();
  const form = useForm(
    { text },
    (values) => request<ZonePreview>("POST", resellerApi(reseller, "zones", domain, "preview"), { text: values.text }),
    (preview, values) => setSeen({ text: values.text, preview }),
  );
  const apply = useAction(
    async (looked: { text: string; preview: ZonePreview }) => {
      const path = dnsApi(reseller, "zone_file", domain) + queryOf({ serial: looked.preview.at_serial });
      const answer = await request<{ serial: number; records: number }>("PUT", path, { text: looked.text });
      // Who is told of a change, and replaces the zone again, means that change: it is shown before they are told.
      if (!answer.ok && answer.error.code === "zone-changed") await form.submit();
      return answer;
    },
    ({ records, serial }) => {
      showToast(words.applied(formatNumber(records), String(serial)));
      form.set({ text: "" });
      onDone();
    },
  );
  const written = form.values.text;
  useKeptDraft(keep.key, written.trim() === "" || written === keep.unless ? undefined : written);
  const isSeen = seen?.text === form.values.text;
  return (
    <form class="stack wide" onSubmit={form.submit}>
      <TextArea {...form.field("text")} label={words.text} rows={12} mono />
      <ProblemNote problem={form.problem} />
      {isSeen && <PreviewDifference preview={seen.preview} />}
      <div class="row">
        <Button submit busy={form.busy} disabled={form.values.text.trim() === ""}>
          {words.preview}
        </Button>
        <Button kind="primary" busy={apply.busy} disabled={!isSeen} onClick={() => isSeen && void apply.run(seen)}>
          {words.apply}
        </Button>
      </div>
    </form>
  );
}
