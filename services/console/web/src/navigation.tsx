import { useEffect, useRef } from "preact/hooks";
import { useLocation } from "preact-iso";
import { useAction } from "./action.ts";
import type { Area, NavigationItem } from "./area.ts";
import { Icon, type IconName } from "./components/icon.tsx";
import { pathSegments } from "./path-segments.ts";
import { Preferences } from "./preferences.tsx";
import { choicesOf, chooseScope, currentScope } from "./scopes.ts";
import { type Session, signOut } from "./session.ts";
import { texts } from "./texts.ts";

interface NavigationProps {
  readonly session: Session;
  readonly areas: readonly Area[];
  /** On a phone it is shown only on demand. */
  readonly open: boolean;
  readonly close: () => void;
}

/** Where one can go: by area, and within an area by the reseller or instance chosen. */
export function Navigation({ session, areas, open, close }: NavigationProps) {
  const { shell } = texts();
  const { path } = useLocation();
  const leave = useAction(signOut, () => {});
  const element = useRef<HTMLElement>(null);
  // The list may be longer than the window, and grows when the scopes are known: where the reader is stays in sight.
  const scopes = areas.map(({ scope }) => scope && choicesOf(scope).length).join();
  useEffect(
    () => element.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }),
    [path, scopes],
  );
  useEffect(() => {
    if (!open) return;
    const listen = (event: KeyboardEvent) => event.key === "Escape" && close();
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, [open, close]);
  return (
    <nav ref={element} id="navigation" class={open ? "navigation open" : "navigation"} aria-label={shell.navigation}>
      <a class="brand" href="/">
        <img src="/icon.svg" alt="" width="28" height="28" />
        Palomar
      </a>
      <ul>
        <Entry href="/" icon="home" label={shell.home} exact />
      </ul>
      {areas.map((area) => (
        <AreaEntries key={area.id} area={area} session={session} />
      ))}
      <ul class="navigation-end">
        <Entry href="/jobs" icon="refresh" label={shell.jobs} />
        <Entry href="/account" icon="user" label={session.login} />
        <li>
          <button type="button" class="navigation-link" disabled={leave.busy} onClick={() => void leave.run()}>
            <Icon name="signOut" />
            {shell.signOut}
          </button>
        </li>
      </ul>
      <Preferences />
    </nav>
  );
}

function AreaEntries({ area, session }: { readonly area: Area; readonly session: Session }) {
  const { shell } = texts();
  const scope = area.scope === undefined ? "" : currentScope(area.scope);
  const isVisible = ({ roles }: NavigationItem) => roles === undefined || roles.includes(session.role);
  const isWithoutScope = area.scope !== undefined && scope === "";
  if (isWithoutScope) return null;
  return (
    <section aria-label={shell.areas[area.id]}>
      <h2>{shell.areas[area.id]}</h2>
      {area.scope !== undefined && <ScopeChoice kind={area.scope} current={scope} />}
      <ul>
        {area.navigation.filter(isVisible).map((item) => (
          <Entry key={item.icon} href={item.href(scope)} icon={item.icon} label={item.label(texts())} />
        ))}
      </ul>
    </section>
  );
}

/** Chooses the reseller or instance that the entries are about, where there are several. */
function ScopeChoice({ kind, current }: { readonly kind: "reseller" | "instance"; readonly current: string }) {
  const { path, route } = useLocation();
  const choices = choicesOf(kind);
  const prefix = kind === "reseller" ? "/dns/" : "/mail/";
  useEffect(() => {
    // A link leads to what another reseller or instance has: the navigation follows it.
    const [, area, addressed] = pathSegments(path) ?? [];
    if (`/${area}/` === prefix && addressed !== undefined && choices.includes(addressed)) chooseScope(kind, addressed);
  }, [path, choices, kind, prefix]);
  if (choices.length < 2) return null;
  return (
    <select
      class="scope-choice"
      aria-label={texts().shell.scope[kind]}
      value={current}
      onChange={({ currentTarget }) => {
        chooseScope(kind, currentTarget.value);
        const [, area, addressed, page] = path.split("/");
        // The same list of the other one; what was open belongs to the one before.
        if (`/${area}/` === prefix && addressed !== undefined) {
          route(`${prefix}${encodeURIComponent(currentTarget.value)}${page ? `/${page}` : ""}`);
        }
      }}
    >
      {choices.map((choice) => (
        <option key={choice} value={choice}>
          {choice}
        </option>
      ))}
    </select>
  );
}

interface EntryProps {
  readonly href: string;
  readonly icon: IconName;
  readonly label: string;
  /** Current only on the very page, not on those below it. */
  readonly exact?: boolean;
}

function Entry({ href, icon, label, exact }: EntryProps) {
  const { path } = useLocation();
  const isCurrent = path === href || (!exact && path.startsWith(`${href}/`));
  return (
    <li>
      <a class="navigation-link" href={href} aria-current={isCurrent ? "page" : undefined}>
        <Icon name={icon} />
        <span>{label}</span>
      </a>
    </li>
  );
}
