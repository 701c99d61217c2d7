import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { texts } from "../texts.ts";
import { Icon } from "./icon.tsx";

export interface Crumb {
  readonly label: string;
  readonly href: string;
}

interface PageProps {
  readonly title: string;
  /** The way here. */
  readonly crumbs?: readonly Crumb[];
  /** Beside the title: states. */
  readonly badges?: ComponentChildren;
  /** Buttons of the page. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A page: its title, the way to it, its buttons, its content. */
export function Page({ title, crumbs = [], badges, actions, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Palomar`;
  }, [title]);
  return (
    <article class="page">
      <header class="page-head">
        <div class="page-name">
          {crumbs.length > 0 && (
            <nav class="crumbs" aria-label={texts().shell.breadcrumbs}>
              {crumbs.map(({ label, href }) => (
                <span key={href}>
                  <a href={href}>{label}</a>
                  <Icon name="chevron" />
                </span>
              ))}
            </nav>
          )}
          <h1>
            {title} {badges}
          </h1>
        </div>
        {actions && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </article>
  );
}

interface SectionProps {
  readonly title: string;
  readonly hint?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a page, with a heading of its own. */
export function Section({ title, hint, actions, children }: SectionProps) {
  return (
    <section class="section">
      <header class="section-head">
        <div>
          <h2>{title}</h2>
          {hint && <p class="hint">{hint}</p>}
        </div>
        {actions && <div class="section-actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

interface TabsProps {
  readonly label: string;
  readonly current: string;
  readonly tabs: readonly { readonly id: string; readonly label: string; readonly href: string }[];
}

/** The parts of something, each with an address of its own. */
export function Tabs({ label, current, tabs }: TabsProps) {
  const element = useRef<HTMLElement>(null);
  // On a phone they reach beyond the window: where the reader is stays in sight.
  useEffect(() => element.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [current]);
  return (
    <nav ref={element} class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.id} href={tab.href} aria-current={tab.id === current ? "page" : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  );
}
