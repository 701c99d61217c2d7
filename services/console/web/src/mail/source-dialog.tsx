import { CopyBlock } from "../components/copy.tsx";
import { Dialog } from "../components/dialog.tsx";
import { Loaded } from "../components/loaded.tsx";
import { useFetched } from "../fetched.ts";
import { sourceText } from "./source-text.ts";

interface SourceDialogProps {
  readonly title: string;
  /** What the octets are called that are copied. */
  readonly label: string;
  /** Where the octets are. */
  readonly path: string;
  readonly onClose: () => void;
}

/** The octets of a message as text, which nothing in it can get out of. */
export function SourceDialog({ title, label, path, onClose }: SourceDialogProps) {
  const source = useFetched<Uint8Array>(path);
  return (
    <Dialog title={title} onClose={onClose} wide>
      <div class="dialog-body">
        <Loaded of={source}>{(octets) => <CopyBlock label={label} text={sourceText(octets)} />}</Loaded>
      </div>
    </Dialog>
  );
}
