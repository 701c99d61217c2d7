import { useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { ConfirmDialog } from "../../components/dialog.tsx";
import { Section } from "../../components/page.tsx";
import { showToast } from "../../components/toasts.tsx";
import { useFetched } from "../../fetched.ts";
import { request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { AlgorithmDialog } from "./algorithm-dialog.tsx";
import { ImportKeysDialog } from "./import-keys-dialog.tsx";
import { ParentZone } from "./parent-zone.tsx";
import type { SignedZoneProps, SigningDetails } from "./signing.ts";
import { SigningKeys } from "./signing-keys.tsx";

/** The keys of a signed zone, its parent, and the way back. */
export function SignedZone({ path, signing, reload }: SignedZoneProps) {
  const { dnssec: words } = texts().dns;
  const [open, setOpen] = useState<"algorithm" | "import" | "stop">();
  const close = () => setOpen(undefined);
  const details = useFetched<SigningDetails>(`${path}/details`);
  const reloadAll = () => {
    details.reload();
    reload();
  };
  const part = { path, signing, details: details.value, reload: reloadAll };
  return (
    <>
      <Section
        title={words.enabled}
        hint={`${words.denial}: ${words.denials[signing.denial]}`}
        actions={
          <>
            <Button onClick={() => setOpen("algorithm")}>{words.changeAlgorithm}</Button>
            <Button onClick={() => setOpen("import")}>{words.importKeys}</Button>
            <Button kind="danger" onClick={() => setOpen("stop")}>
              {words.disable}
            </Button>
          </>
        }
      >
        <SigningKeys {...part} />
      </Section>
      <ParentZone {...part} />
      {open === "algorithm" && <AlgorithmDialog path={path} signing={signing} done={reloadAll} onClose={close} />}
      {open === "import" && <ImportKeysDialog path={path} done={reloadAll} onClose={close} />}
      {open === "stop" && (
        <ConfirmDialog
          title={words.disable}
          confirmLabel={words.disable}
          typed={signing.domain}
          confirm={() => request("PUT", path, { body: { enabled: false } })}
          done={() => {
            showToast(words.off);
            reload();
          }}
          onClose={close}
        >
          <p>{words.disableHint}</p>
        </ConfirmDialog>
      )}
    </>
  );
}
