import type { Area } from "../area.ts";
import { lazy } from "../lazy.tsx";
import { dnsPages } from "./paths.ts";

const Zones = lazy(() => import("./zones-page.tsx").then((module) => module.ZonesPage));
const Zone = lazy(() => import("./zone/zone-page.tsx").then((module) => module.ZonePage));
const Companies = lazy(() => import("./companies-page.tsx").then((module) => module.CompaniesPage));
const Company = lazy(() => import("./company-page.tsx").then((module) => module.CompanyPage));
const Acls = lazy(() => import("./acls-page.tsx").then((module) => module.AclsPage));
const Tokens = lazy(() => import("./tokens-page.tsx").then((module) => module.TokensPage));
const Blocks = lazy(() => import("./resolver-blocks-page.tsx").then((module) => module.ResolverBlocksPage));
const Feeds = lazy(() => import("./feeds-page.tsx").then((module) => module.FeedsPage));
const Catalogs = lazy(() => import("./catalogs-page.tsx").then((module) => module.CatalogsPage));
const Quotas = lazy(() => import("./quotas-page.tsx").then((module) => module.QuotasPage));
const Lookup = lazy(() => import("./lookup-page.tsx").then((module) => module.LookupPage));

/** A company's user sees its zones; what concerns the whole reseller is not its own. */
const WHOLE_RESELLER = ["operator", "reseller"] as const;

/** Zones and what belongs to them. */
export const dnsArea: Area = {
  id: "dns",
  roles: ["operator", "reseller", "company"],
  scope: "reseller",
  pages: [
    { path: "/dns/:reseller/zones", component: Zones },
    { path: "/dns/:reseller/zones/:domain/:tab", component: Zone },
    { path: "/dns/:reseller/companies", component: Companies },
    { path: "/dns/:reseller/companies/:crmId", component: Company },
    { path: "/dns/:reseller/transfers", component: Acls },
    { path: "/dns/:reseller/tokens", component: Tokens },
    { path: "/dns/:reseller/resolver-blocks", component: Blocks },
    { path: "/dns/:reseller/feeds", component: Feeds },
    { path: "/dns/:reseller/catalogs", component: Catalogs },
    { path: "/dns/:reseller/quotas", component: Quotas },
    { path: "/dns/:reseller/lookup", component: Lookup },
  ],
  navigation: [
    { label: ({ dns }) => dns.zones, icon: "globe", href: dnsPages.zones },
    { label: ({ dns }) => dns.companies.title, icon: "building", href: dnsPages.companies, roles: WHOLE_RESELLER },
    { label: ({ dns }) => dns.acls.title, icon: "transfer", href: dnsPages.acls, roles: WHOLE_RESELLER },
    { label: ({ dns }) => dns.tokens.title, icon: "key", href: dnsPages.tokens },
    { label: ({ dns }) => dns.blocks.title, icon: "block", href: dnsPages.blocks, roles: WHOLE_RESELLER },
    { label: ({ dns }) => dns.feeds.title, icon: "shield", href: dnsPages.feeds, roles: WHOLE_RESELLER },
    { label: ({ dns }) => dns.catalogs.title, icon: "feed", href: dnsPages.catalogs, roles: WHOLE_RESELLER },
    { label: ({ dns }) => dns.quotas.title, icon: "chart", href: dnsPages.quotas },
    { label: ({ dns }) => dns.lookup.title, icon: "search", href: dnsPages.lookup },
  ],
};
