import { Page, Section } from "../components/page.tsx";
import { Preferences } from "../preferences.tsx";
import { session } from "../session.ts";
import { texts } from "../texts.ts";
import { PasswordForm } from "./password-form.tsx";
import { SecondFactor } from "./second-factor.tsx";
import { SessionList } from "./session-list.tsx";

/** What belongs to the person rather than to the deployment. */
export function AccountPage() {
  const { account: words, roles } = texts().shell;
  const current = session.value;
  if (!current) return null;
  return (
    <Page title={words.title}>
      <dl class="facts">
        <div>
          <dt>{words.who}</dt>
          <dd>{current.login}</dd>
        </div>
        <div>
          <dt>{words.role}</dt>
          <dd>{roles[current.role]}</dd>
        </div>
        {current.scope !== null && (
          <div>
            <dt>{words.scope}</dt>
            <dd class="mono">{current.scope}</dd>
          </div>
        )}
      </dl>
      <Section title={words.appearance}>
        <Preferences />
      </Section>
      <Section title={words.password} hint={words.passwordHint}>
        <PasswordForm />
      </Section>
      <Section title={words.totp} hint={words.totpHint}>
        <SecondFactor enabled={current.totp} />
      </Section>
      <Section title={words.sessions} hint={words.sessionsHint}>
        <SessionList />
      </Section>
    </Page>
  );
}
