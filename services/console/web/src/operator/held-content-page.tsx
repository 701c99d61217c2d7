import { Page } from "../components/page.tsx";
import { useRows } from "../fetched.ts";
import { type HeldContent, HeldContentTable } from "../mail/settings/held-content.tsx";
import { texts } from "../texts.ts";

const REFRESH_MS = 10_000;

/** What is held for its content, of all instances. */
export function HeldContentPage() {
  const words = texts().mail.heldContent;
  const held = useRows<HeldContent>("/held", "held", REFRESH_MS);
  return (
    <Page title={words.title}>
      <p class="hint">{words.intro}</p>
      <HeldContentTable held={held} mayDecide ofAll />
    </Page>
  );
}
