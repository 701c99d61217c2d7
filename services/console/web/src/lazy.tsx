import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Button } from "./components/button.tsx";
import { EmptyState } from "./components/empty-state.tsx";
import { Skeleton } from "./components/table.tsx";
import { texts } from "./texts.ts";

/**
 * A page whose script is loaded when it is first visited.
 * @param load imports the module and picks the component
 */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;

  return function LazyPage(props: Props) {
    const [state, setState] = useState<"loading" | "loaded" | "failed">(loaded ? "loaded" : "loading");
    useEffect(() => {
      if (loaded) return;
      load().then(
        (component) => {
          loaded = component;
          setState("loaded");
        },
        () => setState("failed"),
      );
    }, []);
    if (state === "failed") return <LoadFailed />;
    const Component = loaded;
    return Component ? <Component {...props} /> : <Skeleton />;
  };
}

/** The server is away, or has a newer release whose files have other names: loading the page anew helps both. */
function LoadFailed() {
  const { shell } = texts();
  const [isReachable, setReachable] = useState(false);
  useEffect(() => void fetchScripts().then(setReachable), []);
  return (
    <EmptyState icon="warning" title={shell.failedToDraw}>
      <p>{isReachable ? shell.failedToDrawHint : shell.problems.unreachable}</p>
      <Button onClick={() => void fetchScripts().finally(() => location.reload())}>{shell.reload}</Button>
    </EmptyState>
  );
}

/**
 * Fetches the scripts that pages asked for so far. WebKit keeps one that failed as failed, beyond a reload, until somebody
 * fetches it.
 * @returns whether all are there
 */
async function fetchScripts(): Promise<boolean> {
  const links = [...document.querySelectorAll<HTMLLinkElement>('link[rel="modulepreload"]')];
  const found = links.map(({ href }) =>
    fetch(href, { cache: "reload" }).then(
      ({ ok }) => ok,
      () => false,
    ),
  );
  return (await Promise.all(found)).every(Boolean);
}
