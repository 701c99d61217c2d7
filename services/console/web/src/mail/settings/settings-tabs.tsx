import { Tabs } from "../../components/page.tsx";
import { texts } from "../../texts.ts";
import { mailPage } from "../addresses.ts";

/** What holds for all of an instance's mail. */
export function SettingsTabs({ instance, current }: { readonly instance: string; readonly current: string }) {
  const { settings, globals, domains, guard, webhooks } = texts().mail;
  const tab = (id: string, label: string, ...segments: readonly string[]) => ({
    id,
    label,
    href: mailPage(instance, "settings", ...segments),
  });
  return (
    <Tabs
      label={settings}
      current={current}
      tabs={[
        tab("globals", globals.title),
        tab("domains", domains.title, "domains"),
        tab("guard", guard.title, "guard"),
        tab("webhooks", webhooks.title, "webhooks"),
      ]}
    />
  );
}
