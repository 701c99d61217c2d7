import type { ComponentType } from "preact";
import type { IconName } from "./components/icon.tsx";
import type { Role } from "./session.ts";
import type { Texts } from "./texts/en/index.ts";

/** A page, and where it stands. Its parameters are handed to the component as properties. */
export interface AreaPage {
  /** Parameters as `:name`. */
  readonly path: string;
  // Each page knows its own parameters; a list of pages has none in common.
  // biome-ignore lint/suspicious/noExplicitAny: as above
  readonly component: ComponentType<any>;
}

export interface NavigationItem {
  readonly label: (texts: Texts) => string;
  readonly icon: IconName;
  /** @param scope the reseller or instance that was chosen, for areas that have one */
  readonly href: (scope: string) => string;
  /** Who sees it; all roles of the area when absent. */
  readonly roles?: readonly Role[];
}

/** A part of the console: its pages, loaded when first visited, and its entries in the navigation. */
export interface Area {
  readonly id: "dns" | "mail" | "operator";
  readonly roles: readonly Role[];
  /** What its pages are about: the reader chooses one of these. */
  readonly scope?: "reseller" | "instance";
  readonly pages: readonly AreaPage[];
  readonly navigation: readonly NavigationItem[];
}
