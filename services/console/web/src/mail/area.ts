import type { Area } from "../area.ts";
import { lazy } from "../lazy.tsx";
import { mailPage } from "./addresses.ts";

const Contacts = lazy(() => import("./contacts/contacts-page.tsx").then((module) => module.ContactsPage));
const Contact = lazy(() => import("./contacts/contact-page.tsx").then((module) => module.ContactPage));
const Import = lazy(() => import("./contacts/import-page.tsx").then((module) => module.ImportPage));
const Groups = lazy(() => import("./contacts/groups-page.tsx").then((module) => module.GroupsPage));
const Whitelist = lazy(() => import("./contacts/whitelist-page.tsx").then((module) => module.WhitelistPage));
const Suppressions = lazy(() =>
  import("./contacts/suppressions-page.tsx").then((module) => module.InstanceSuppressionsPage),
);
const SuppressionImport = lazy(() =>
  import("./contacts/suppressions-page.tsx").then((module) => module.InstanceSuppressionImportPage),
);
const Filters = lazy(() => import("./filters/filters-page.tsx").then((module) => module.FiltersPage));
const Filter = lazy(() => import("./filters/filter-page.tsx").then((module) => module.FilterPage));
const Campaigns = lazy(() => import("./campaigns/campaigns-page.tsx").then((module) => module.CampaignsPage));
const Campaign = lazy(() => import("./campaigns/campaign-page.tsx").then((module) => module.CampaignPage));
const Sends = lazy(() => import("./sends/sends-page.tsx").then((module) => module.SendsPage));
const Send = lazy(() => import("./sends/send-page.tsx").then((module) => module.SendPage));
const Message = lazy(() => import("./sends/message-page.tsx").then((module) => module.MessagePage));
const Messages = lazy(() => import("./messages/messages-page.tsx").then((module) => module.MessagesPage));
const Story = lazy(() => import("./messages/story-page.tsx").then((module) => module.StoryPage));
const Statistics = lazy(() => import("./statistics-page.tsx").then((module) => module.StatisticsPage));
const Globals = lazy(() => import("./settings/globals-page.tsx").then((module) => module.GlobalsPage));
const Domains = lazy(() => import("./settings/domains-page.tsx").then((module) => module.DomainsPage));
const Reports = lazy(() => import("./settings/reports-page.tsx").then((module) => module.ReportsPage));
const Guard = lazy(() => import("./settings/guard-page.tsx").then((module) => module.GuardPage));
const Webhooks = lazy(() => import("./settings/webhooks-page.tsx").then((module) => module.WebhooksPage));
const Sandbox = lazy(() => import("./sandbox-page.tsx").then((module) => module.SandboxPage));

/** Contacts, campaigns and what became of them. */
export const mailArea: Area = {
  id: "mail",
  roles: ["operator", "instance"],
  scope: "instance",
  pages: [
    { path: "/mail/:instance/contacts", component: Contacts },
    { path: "/mail/:instance/contacts/import", component: Import },
    { path: "/mail/:instance/contacts/groups", component: Groups },
    { path: "/mail/:instance/contacts/whitelist", component: Whitelist },
    { path: "/mail/:instance/contacts/suppressions", component: Suppressions },
    { path: "/mail/:instance/contacts/suppressions/import", component: SuppressionImport },
    { path: "/mail/:instance/contacts/filters", component: Filters },
    { path: "/mail/:instance/contacts/filters/:id", component: Filter },
    { path: "/mail/:instance/contacts/:email/profile", component: Contact },
    { path: "/mail/:instance/campaigns", component: Campaigns },
    { path: "/mail/:instance/campaigns/:numid", component: Campaign },
    { path: "/mail/:instance/sends", component: Sends },
    { path: "/mail/:instance/sends/:eeid", component: Send },
    { path: "/mail/:instance/sends/:eeid/:email/message", component: Message },
    { path: "/mail/:instance/messages", component: Messages },
    { path: "/mail/:instance/messages/:id", component: Story },
    { path: "/mail/:instance/statistics", component: Statistics },
    { path: "/mail/:instance/settings", component: Globals },
    { path: "/mail/:instance/settings/domains", component: Domains },
    { path: "/mail/:instance/settings/domains/:domain/reports", component: Reports },
    { path: "/mail/:instance/settings/guard", component: Guard },
    { path: "/mail/:instance/settings/webhooks", component: Webhooks },
    { path: "/mail/:instance/sandbox", component: Sandbox },
  ],
  navigation: [
    { label: ({ mail }) => mail.contacts.title, icon: "contact", href: (instance) => mailPage(instance, "contacts") },
    { label: ({ mail }) => mail.campaigns.title, icon: "mail", href: (instance) => mailPage(instance, "campaigns") },
    { label: ({ mail }) => mail.sends.title, icon: "send", href: (instance) => mailPage(instance, "sends") },
    { label: ({ mail }) => mail.messages.title, icon: "search", href: (instance) => mailPage(instance, "messages") },
    { label: ({ mail }) => mail.statistics.title, icon: "chart", href: (instance) => mailPage(instance, "statistics") },
    { label: ({ mail }) => mail.settings, icon: "settings", href: (instance) => mailPage(instance, "settings") },
    {
      label: ({ mail }) => mail.sandbox.title,
      icon: "inbox",
      href: (instance) => mailPage(instance, "sandbox"),
      roles: ["operator"],
    },
  ],
};
