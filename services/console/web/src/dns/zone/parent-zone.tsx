import { useState } from "preact/hooks";
import { useAction } from "../../action.ts";
import { Button } from "../../components/button.tsx";
import { CopyBlock } from "../../components/copy.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { CheckField } from "../../components/field.tsx";
import { Section } from "../../components/page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { formatAge } from "../../format.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import type { SignedZoneProps, SigningDetails } from "./signing.ts";

interface ParentZoneProps extends SignedZoneProps {
  readonly details: SigningDetails | undefined;
}

/** The DS records for the parent, and whether it has them. */
export function ParentZone({ path, signing, details, reload }: ParentZoneProps) {
  const { dns, shell } = texts();
  const words = dns.dnssec;
  const ask = useAction(() => request("POST", `${path}/check`), reload);
  const [vouching, setVouching] = useState(false);
  const change = useAction(
    (setting: "ds_wanted" | "ds_automatic", body: Readonly<Record<string, boolean>>) =>
      request("PUT", `${path}/${setting}`, { body }),
    () => {
      showToast(shell.saved);
      reload();
    },
  );
  const records = signing.keys.flatMap(({ ds }) => ds.map((data) => `${signing.domain}. IN DS ${data}`));
  return (
    <Section
      title={words.ds}
      hint={words.dsHint}
      actions={
        <>
          <Button icon="refresh" busy={ask.busy} onClick={() => void ask.run()}>
            {words.ask}
          </Button>
          <Button onClick={() => setVouching(true)}>{words.dsGone}</Button>
        </>
      }
    >
      {vouching && (
        <NoDsDialog path={path} domain={signing.domain} reload={reload} onClose={() => setVouching(false)} />
      )}
      {records.length > 0 && <CopyBlock label={signing.domain} text={records.join("\n")} />}
      {details && (
        <>
          <ParentState parent={details.parent} />
          <CheckField
            name="announce"
            checked={details.ds_wanted}
            busy={change.busy}
            onChecked={(wanted) => void change.run("ds_wanted", { wanted })}
            label={words.announce}
            hint={details.ds_wanted ? undefined : words.announceRemoval}
          />
          <CheckField
            name="automatic"
            checked={details.ds_automatic}
            busy={change.busy}
            onChecked={(automatic) => void change.run("ds_automatic", { automatic })}
            label={words.automatic}
            hint={words.automaticHint}
          />
        </>
      )}
    </Section>
  );
}

interface NoDsDialogProps extends Pick<ParentZoneProps, "path" | "reload"> {
  readonly domain: string;
  readonly onClose: () => void;
}

function NoDsDialog({ path, domain, reload, onClose }: NoDsDialogProps) {
  const { dnssec: words } = texts().dns;
  return (
    <ConfirmDialog
      title={`${words.dsGone}: ${domain}`}
      confirmLabel={words.dsGone}
      confirm={() => request("POST", `${path}/ds_gone`)}
      done={() => {
        showToast(words.dsGoneDone);
        reload();
      }}
      onClose={onClose}
    >
      <p>{words.dsGoneHint}</p>
    </ConfirmDialog>
  );
}

function ParentState({ parent: { ds, authenticated, checked } }: { readonly parent: SigningDetails["parent"] }) {
  const { dnssec: words } = texts().dns;
  const state = ds === null ? words.parentUnknown : ds.length > 0 ? words.parentHas : words.parentHasNone;
  return (
    <>
      <p>
        {state} {checked !== null && <span class="hint">{words.asked(formatAge(checked))}</span>}
      </p>
      {authenticated === false && <p class="note warn">{words.unauthenticated}</p>}
    </>
  );
}
