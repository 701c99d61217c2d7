import { CopyBlock } from "../../components/copy.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { texts } from "../../texts.ts";

/** A key pair as BIND's tools keep it. */
export interface ExportedKey {
  /** Without `.key` and `.private`. */
  readonly name: string;
  readonly key: string;
  readonly private: string;
}

/** Both files of a key pair, to be copied. */
export function ExportedKeyDialog({ files, onClose }: { readonly files: ExportedKey; readonly onClose: () => void }) {
  const { dnssec: words } = texts().dns;
  return (
    <Dialog title={files.name} onClose={onClose} wide>
      <div class="dialog-body">
        <p class="note warn">{words.exportHint}</p>
        <CopyBlock label={`${files.name}.key`} text={files.key} />
        <CopyBlock label={`${files.name}.private`} text={files.private} />
      </div>
    </Dialog>
  );
}
