import { useEffect } from "preact/hooks";
import { LocationProvider } from "preact-iso";
import { ProblemNote } from "./components/problem.tsx";
import { Toasts } from "./components/toasts.tsx";
import { findSession, session, sessionProblem } from "./session.ts";
import { Shell } from "./shell.tsx";
import { SignIn } from "./sign-in.tsx";
import "./theme.ts";

/** The whole console: the sign-in, or the pages. A sign-in leads to the page whose address was asked for. */
export function App() {
  return (
    <LocationProvider>
      <Content />
      <Toasts />
    </LocationProvider>
  );
}

function Content() {
  if (session.value) return <Shell session={session.value} />;
  return session.value === null ? <SignIn /> : <Away />;
}

const ASK_AGAIN_MS = 5_000;

/** The server could not say who is signed in: it is asked until it can. */
function Away() {
  useEffect(() => {
    const asking = setInterval(() => void findSession(), ASK_AGAIN_MS);
    return () => clearInterval(asking);
  }, []);
  return (
    <main class="alone">
      <ProblemNote problem={sessionProblem.value} retry={() => void findSession()} />
    </main>
  );
}
