import type { Area } from "../area.ts";
import { lazy } from "../lazy.tsx";

const Resellers = lazy(() => import("./resellers-page.tsx").then((module) => module.ResellersPage));
const Instances = lazy(() => import("./instances-page.tsx").then((module) => module.InstancesPage));
const Users = lazy(() => import("./users-page.tsx").then((module) => module.UsersPage));
const Feeds = lazy(() => import("./feeds-page.tsx").then((module) => module.FeedsPage));
const Rules = lazy(() => import("./rules-page.tsx").then((module) => module.RulesPage));
const Statistics = lazy(() => import("./dns-statistics-page.tsx").then((module) => module.DnsStatisticsPage));
const Queues = lazy(() => import("./queues-page.tsx").then((module) => module.QueuesPage));
const Paces = lazy(() => import("./paces-page.tsx").then((module) => module.PacesPage));
const Pace = lazy(() => import("./pace-page.tsx").then((module) => module.PacePage));
const HeldContent = lazy(() => import("./held-content-page.tsx").then((module) => module.HeldContentPage));
const WarmUps = lazy(() => import("./warm-ups-page.tsx").then((module) => module.WarmUpsPage));
const WarmUp = lazy(() => import("./warm-up-page.tsx").then((module) => module.WarmUpPage));
const Nodes = lazy(() => import("./nodes-page.tsx").then((module) => module.NodesPage));
const Quarantine = lazy(() => import("./quarantine-page.tsx").then((module) => module.QuarantinePage));
const Suppressions = lazy(() =>
  import("../mail/contacts/suppressions-page.tsx").then((module) => module.GlobalSuppressionsPage),
);
const SuppressionImport = lazy(() =>
  import("../mail/contacts/suppressions-page.tsx").then((module) => module.GlobalSuppressionImportPage),
);
const UnknownWordings = lazy(() => import("./bounce-wordings-page.tsx").then((module) => module.UnknownWordingsPage));
const Wordings = lazy(() => import("./bounce-wordings-page.tsx").then((module) => module.WordingsPage));
const Audit = lazy(() => import("./audit-page.tsx").then((module) => module.AuditPage));

const OPERATOR = ["operator"] as const;

/** The deployment as a whole; users and the audit log also for those who have people of their own. */
export const operatorArea: Area = {
  id: "operator",
  roles: ["operator", "reseller", "company", "instance"],
  pages: [
    { path: "/operator/resellers", component: Resellers },
    { path: "/operator/instances", component: Instances },
    { path: "/operator/users", component: Users },
    { path: "/operator/feeds", component: Feeds },
    { path: "/operator/feeds/:zone/rules", component: Rules },
    { path: "/operator/dns", component: Statistics },
    { path: "/operator/queues", component: Queues },
    { path: "/operator/paces", component: Paces },
    { path: "/operator/paces/:source/:provider", component: Pace },
    { path: "/operator/warm-ups", component: WarmUps },
    { path: "/operator/warm-ups/:source", component: WarmUp },
    { path: "/operator/nodes", component: Nodes },
    { path: "/operator/quarantine", component: Quarantine },
    { path: "/operator/held", component: HeldContent },
    { path: "/operator/suppressions", component: Suppressions },
    { path: "/operator/suppressions/import", component: SuppressionImport },
    { path: "/operator/bounces", component: UnknownWordings },
    { path: "/operator/bounces/wordings", component: Wordings },
    { path: "/operator/audit", component: Audit },
  ],
  navigation: [
    {
      label: ({ operator }) => operator.resellers.title,
      icon: "building",
      href: () => "/operator/resellers",
      roles: OPERATOR,
    },
    {
      label: ({ operator }) => operator.instances.title,
      icon: "instance",
      href: () => "/operator/instances",
      roles: OPERATOR,
    },
    {
      label: ({ operator }) => operator.users.title,
      icon: "contact",
      href: () => "/operator/users",
      roles: ["operator", "reseller"],
    },
    { label: ({ operator }) => operator.feeds.title, icon: "shield", href: () => "/operator/feeds", roles: OPERATOR },
    {
      label: ({ operator }) => operator.statistics.title,
      icon: "chart",
      href: () => "/operator/dns",
      roles: ["operator", "reseller", "company"],
    },
    { label: ({ operator }) => operator.queues.title, icon: "queue", href: () => "/operator/queues", roles: OPERATOR },
    { label: ({ operator }) => operator.paces.title, icon: "chart", href: () => "/operator/paces", roles: OPERATOR },
    {
      label: ({ operator }) => operator.warmUps.title,
      icon: "chart",
      href: () => "/operator/warm-ups",
      roles: OPERATOR,
    },
    { label: ({ operator }) => operator.nodes.title, icon: "node", href: () => "/operator/nodes", roles: OPERATOR },
    {
      label: ({ mail }) => mail.suppressions.title,
      icon: "shield",
      href: () => "/operator/suppressions",
      roles: OPERATOR,
    },
    {
      label: ({ operator }) => operator.quarantine.title,
      icon: "inbox",
      href: () => "/operator/quarantine",
      roles: OPERATOR,
    },
    { label: ({ mail }) => mail.heldContent.title, icon: "pause", href: () => "/operator/held", roles: OPERATOR },
    {
      label: ({ operator }) => operator.wordings.unknown.title,
      icon: "search",
      href: () => "/operator/bounces",
      roles: OPERATOR,
    },
    { label: ({ operator }) => operator.audit.title, icon: "audit", href: () => "/operator/audit" },
  ],
};
