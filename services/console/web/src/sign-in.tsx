import { useEffect } from "preact/hooks";
import { Button } from "./components/button.tsx";
import { TextField } from "./components/field.tsx";
import { ProblemNote } from "./components/problem.tsx";
import { useForm } from "./form.ts";
import type { Problem } from "./http.ts";
import { Preferences } from "./preferences.tsx";
import { signIn, wantsCode } from "./session.ts";
import { texts } from "./texts.ts";

/** Login and password, and the one-time code once the server asks for it. */
export function SignIn() {
  const { signIn: words } = texts().shell;
  const form = useForm(
    { login: "", password: "", code: "", codeWanted: false, codeRefused: false },
    async ({ login, password, code }) => {
      const answer = await signIn({ login, password, ...(code === "" ? {} : { code: code.replaceAll(" ", "") }) });
      if (!answer.ok && wantsCode(answer.error)) form.set({ codeWanted: true, codeRefused: code !== "", code: "" });
      return answer;
    },
    () => {},
  );
  useEffect(() => {
    document.title = `${words.title} · Palomar`;
  }, [words]);

  return (
    <main class="sign-in">
      <form class="sign-in-card" onSubmit={form.submit} noValidate>
        <header class="sign-in-head">
          <img src="/icon.svg" alt="" width="40" height="40" />
          <h1>Palomar</h1>
        </header>
        <TextField {...form.field("login")} label={words.login} autocomplete="username" autofocus />
        <TextField {...form.field("password")} type="password" label={words.password} autocomplete="current-password" />
        {form.values.codeWanted && (
          <TextField
            {...form.field("code")}
            label={words.code}
            hint={words.codeHint}
            autocomplete="one-time-code"
            autofocus
            mono
          />
        )}
        <SignInProblem problem={form.problem} codeRefused={form.values.codeRefused} />
        <Button submit kind="primary" busy={form.busy}>
          {words.submit}
        </Button>
        <p class="hint">{words.firstTime}</p>
      </form>
      <Preferences />
    </main>
  );
}

interface SignInProblemProps {
  readonly problem: Problem | undefined;
  readonly codeRefused: boolean;
}

/** That a code is wanted is no failure; that the given one was wrong is. */
function SignInProblem({ problem, codeRefused }: SignInProblemProps) {
  const { signIn: words } = texts().shell;
  if (problem?.status !== 401) return <ProblemNote problem={problem} />;
  if (!wantsCode(problem)) return <ProblemNote problem={{ ...problem, message: words.wrong }} />;
  return codeRefused ? <ProblemNote problem={{ ...problem, message: words.wrongCode }} /> : null;
}
