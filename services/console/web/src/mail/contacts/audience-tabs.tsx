import { Tabs } from "../../components/page.tsx";
import { texts } from "../../texts.ts";
import { mailPage } from "../addresses.ts";

/** Contacts, and the ways to gather them. */
export function AudienceTabs({ instance, current }: { readonly instance: string; readonly current: string }) {
  const { contacts, groups, filters, suppressions, whitelist } = texts().mail;
  const tab = (id: string, label: string, ...segments: readonly string[]) => ({
    id,
    label,
    href: mailPage(instance, "contacts", ...segments),
  });
  return (
    <Tabs
      label={contacts.audience}
      current={current}
      tabs={[
        tab("contacts", contacts.title),
        tab("groups", groups.title, "groups"),
        tab("filters", filters.title, "filters"),
        tab("suppressions", suppressions.title, "suppressions"),
        tab("whitelist", whitelist.title, "whitelist"),
      ]}
    />
  );
}
