import type { ComponentChildren } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { Route, Router, useLocation } from "preact-iso";
import type { Area } from "./area.ts";
import { AREAS } from "./areas.ts";
import { Button } from "./components/button.tsx";
import { EmptyState } from "./components/empty-state.tsx";
import { Icon } from "./components/icon.tsx";
import { Page } from "./components/page.tsx";
import { useKeptFocus } from "./kept-focus.ts";
import { lazy } from "./lazy.tsx";
import { Navigation } from "./navigation.tsx";
import { pathSegments } from "./path-segments.ts";
import type { Session } from "./session.ts";
import { texts } from "./texts.ts";

const Home = lazy(() => import("./home.tsx").then((module) => module.HomePage));
const Account = lazy(() => import("./account/account-page.tsx").then((module) => module.AccountPage));
const Jobs = lazy(() => import("./jobs/jobs-page.tsx").then((module) => module.JobsPage));
const Job = lazy(() => import("./jobs/job-page.tsx").then((module) => module.JobPage));

/** The frame around the pages: navigation beside them, above them on a phone. */
export function Shell({ session }: { readonly session: Session }) {
  const { shell } = texts();
  const [navigationOpen, setNavigationOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const toggle = useRef<HTMLButtonElement>(null);
  const { path } = useLocation();
  useSearchShortcut();
  useKeptFocus(main);

  useNarrowOnly(navigationOpen, () => setNavigationOpen(false));
  const closeNavigation = () => {
    setNavigationOpen(false);
    toggle.current?.focus();
  };
  const arrived = () => {
    setNavigationOpen(false);
    main.current?.focus({ preventScroll: true });
  };
  const areas = AREAS.filter(({ roles }) => roles.includes(session.role));
  return (
    <div class="shell">
      <a class="skip-link" href="#content">
        {shell.skipToContent}
      </a>
      <header class="top-bar">
        <button
          ref={toggle}
          type="button"
          class="icon-button"
          aria-expanded={navigationOpen}
          aria-controls="navigation"
          aria-label={navigationOpen ? shell.closeNavigation : shell.openNavigation}
          onClick={() => setNavigationOpen(!navigationOpen)}
        >
          <Icon name={navigationOpen ? "close" : "menu"} />
        </button>
        <a class="brand" href="/">
          <img src="/icon.svg" alt="" width="24" height="24" />
          Palomar
        </a>
      </header>
      <Navigation session={session} areas={areas} open={navigationOpen} close={closeNavigation} />
      {/* Behind the open navigation nothing can be reached. */}
      <main id="content" class="content" ref={main} tabIndex={-1} inert={navigationOpen}>
        <Pages areas={areas} path={path} onArrival={arrived} />
      </main>
    </div>
  );
}

interface PagesProps {
  readonly areas: readonly Area[];
  readonly path: string;
  readonly onArrival: () => void;
}

function Pages({ areas, path, onArrival }: PagesProps) {
  return (
    <FailureBoundary path={path}>
      {pathSegments(path) === undefined ? (
        <NotFound />
      ) : (
        <Router onRouteChange={onArrival}>
          <Route path="/" component={Home} />
          <Route path="/account" component={Account} />
          <Route path="/jobs" component={Jobs} />
          <Route path="/jobs/:id" component={Job} />
          {areas.flatMap(({ pages }) => pages.map((page) => <Route key={page.path} {...page} />))}
          <Route default component={NotFound} />
        </Router>
      )}
    </FailureBoundary>
  );
}

function NotFound() {
  const { shell } = texts();
  return (
    <Page title={shell.notFound}>
      <EmptyState icon="search" title={shell.notFound}>
        <p>{shell.notFoundHint}</p>
        <a class="button" href="/">
          {shell.toHome}
        </a>
      </EmptyState>
    </Page>
  );
}

/**
 * A page that fails leaves the navigation alone, and the next page gets its chance; where a script failed that both need,
 * browsers other than Chromium give it none before the window is loaded anew.
 */
function FailureBoundary({ path, children }: { readonly path: string; readonly children: ComponentChildren }) {
  // Whoever has the browser's tools open sees what it was.
  const [error, reset] = useErrorBoundary((failure) => reportError(failure));
  const { shell } = texts();
  // The way to another page ends a failure.
  useEffect(reset, [path]);
  if (error === undefined) return <>{children}</>;
  return (
    <Page title={shell.failedToDraw}>
      <EmptyState icon="warning" title={shell.failedToDraw}>
        <p>{shell.failedToDrawHint}</p>
        <Button onClick={() => location.reload()}>{shell.reload}</Button>
      </EmptyState>
    </Page>
  );
}

/** As the style sheet has it: up to here the navigation stands above the page. */
const NARROW = matchMedia("(width <= 860px)");

/** Ends what is for narrow windows when the window becomes wide. */
function useNarrowOnly(isOpen: boolean, end: () => void): void {
  useEffect(() => {
    if (!isOpen) return;
    const judge = () => NARROW.matches || end();
    NARROW.addEventListener("change", judge);
    return () => NARROW.removeEventListener("change", judge);
  }, [isOpen, end]);
}

/** `/` leads to the page's search field, as it does in most tools of the trade. */
function useSearchShortcut(): void {
  useEffect(() => {
    const listen = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const typing = target.matches("input, textarea, select, [contenteditable]");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      const search = document.querySelector<HTMLInputElement>("main input[type=search]");
      if (!search) return;
      event.preventDefault();
      search.focus();
      search.select();
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
