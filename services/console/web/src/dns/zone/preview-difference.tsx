import { Difference } from "../../components/difference.tsx";
import { Icon } from "../../components/icon.tsx";
import { describeSentence } from "../../problem-words.ts";
import { texts } from "../../texts.ts";
import type { ZonePreview } from "../record.ts";
import { changeLines } from "./history.ts";

/** What a change would do to a zone, with what is worth a look about it. */
export function PreviewDifference({ preview }: { readonly preview: ZonePreview }) {
  const { difference, history } = texts().dns;
  const lines = (side: "deleted" | "added") => changeLines(preview, side, history);
  return (
    <>
      <Difference deleted={lines("deleted")} added={lines("added")} />
      {preview.warnings.length > 0 && (
        <div class="note warn">
          <Icon name="warning" />
          <div>
            <strong>{difference.warnings}</strong>
            <ul>
              {preview.warnings.map((warning) => (
                <li key={warning.message}>{describeSentence(warning)}</li>
              ))}
            </ul>
          </div>
        </div>
      )}
    </>
  );
}
