import { useEffect, useState } from "preact/hooks";
import { Button } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { ProblemNote } from "../../components/problem.tsx";
import { Skeleton } from "../../components/table.tsx";
import { showToast } from "../../components/toasts.tsx";
import { type Answer, request } from "../../http.ts";
import { texts } from "../../texts.ts";
import { dnsApi, resellerApi } from "../paths.ts";
import { type PendingChanges, toBatch } from "../pending-changes.ts";
import type { ZonePreview } from "../record.ts";
import { PreviewDifference } from "./preview-difference.tsx";

interface ReviewDialogProps {
  readonly reseller: string;
  readonly domain: string;
  readonly changes: PendingChanges;
  readonly onApplied: () => void;
  readonly onClose: () => void;
}

/** Shows what the pending changes come to, and applies them in one step. */
export function ReviewDialog({ reseller, domain, changes, onApplied, onClose }: ReviewDialogProps) {
  const { dns, shell } = texts();
  const [preview, setPreview] = useState<Answer<ZonePreview>>();
  const [applied, setApplied] = useState<Answer<{ serial: number }>>();
  const [busy, setBusy] = useState(false);
  const body = toBatch(changes);
  const look = async () =>
    setPreview(await request<ZonePreview>("POST", resellerApi(reseller, "zones", domain, "preview"), { body }));
  useEffect(() => void look(), []);
  const apply = async ({ at_serial }: ZonePreview) => {
    setBusy(true);
    const answer = await request<{ serial: number }>("POST", dnsApi(reseller, "rr", domain, "batch"), {
      body: { ...body, serial: at_serial },
    });
    if (!answer.ok && answer.error.code === "zone-changed") await look();
    setBusy(false);
    setApplied(answer);
    if (!answer.ok) return;
    showToast(dns.pending.applied(String(answer.value.serial)));
    onClose();
    onApplied();
  };
  const isNothing = preview?.ok === true && preview.value.added.length + preview.value.deleted.length === 0;
  return (
    <Dialog title={dns.pending.title} onClose={onClose} wide>
      <div class="dialog-body">
        {preview === undefined && <Skeleton />}
        {preview?.ok === false && <ProblemNote problem={preview.error} />}
        {preview?.ok && <PreviewDifference preview={preview.value} />}
        {isNothing && <p class="hint">{dns.pending.nothing}</p>}
        {applied?.ok === false && <ProblemNote problem={applied.error} />}
      </div>
      <footer class="dialog-foot">
        <Button onClick={onClose}>{shell.cancel}</Button>
        <Button
          kind="primary"
          busy={busy}
          disabled={preview?.ok !== true || isNothing}
          onClick={() => preview?.ok && void apply(preview.value)}
        >
          {dns.pending.apply}
        </Button>
      </footer>
    </Dialog>
  );
}
