import { Page } from "../components/page.tsx";
import { useQuery } from "../query.ts";
import { texts } from "../texts.ts";
import { LookupBox } from "./lookup-box.tsx";

/** The look-up box on a page of its own. */
export function LookupPage() {
  const { lookup: words } = texts().dns;
  const [{ name = "", type = "A", dnssec }, change] = useQuery();
  return (
    <Page title={words.title}>
      <p class="intro">{words.intro}</p>
      <LookupBox
        first={{ name, type, dnssec: dnssec === "true" }}
        onAsk={({ name: asked, type: of, dnssec: signed }) =>
          change({ name: asked, type: of, dnssec: signed ? "true" : undefined })
        }
      />
    </Page>
  );
}
