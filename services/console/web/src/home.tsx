import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso";
import { AREAS } from "./areas.ts";
import { EmptyState } from "./components/empty-state.tsx";
import { Page } from "./components/page.tsx";
import { OperatorOverview } from "./operator/overview.tsx";
import { currentScope } from "./scopes.ts";
import { session } from "./session.ts";
import { texts } from "./texts.ts";

/** Where a sign-in leads: an operator to the state of everything, all others to the first page of their area. */
export function HomePage() {
  const { shell } = texts();
  const { route } = useLocation();
  const role = session.value?.role;
  const area = AREAS.find(({ roles }) => role !== undefined && roles.includes(role));
  const first = role === "operator" || !area?.scope ? undefined : area.navigation[0]?.href(currentScope(area.scope));
  useEffect(() => {
    if (first !== undefined) route(first, true);
  }, [first, route]);
  if (role === "operator") return <OperatorOverview />;
  return (
    <Page title={shell.home}>
      <EmptyState icon="home" title={shell.loading}>
        {null}
      </EmptyState>
    </Page>
  );
}
