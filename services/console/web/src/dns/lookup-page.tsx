import { Page } from "../components/page.tsx";
import { texts } from "../texts.ts";
import { LookupBox } from "./lookup-box.tsx";

/** The look-up box on a page of its own. */
export function LookupPage() {
  const { lookup: words } = texts().dns;
  return (
    <Page title={words.title}>
      <p class="intro">{words.intro}</p>
      <LookupBox name="" />
    </Page>
  );
}
