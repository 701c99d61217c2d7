import { signal } from "@preact/signals";
import { type Answer, type Problem, request, useCredentials } from "./http.ts";

export type Role = "operator" | "reseller" | "company" | "instance";

/** Who is signed in. */
export interface Session {
  readonly login: string;
  readonly role: Role;
  /** The reseller, `reseller/company`, or instance; null for an operator. */
  readonly scope: string | null;
  /** Null when the browser signs its requests in another way: then none is needed. */
  readonly csrf: string | null;
  /** Whether the account has a second factor. */
  readonly totp: boolean;
}

/** The session: undefined until the server was asked, null when nobody is signed in. */
export const session = signal<Session | null | undefined>(undefined);

/** Why the server could not say who is signed in: it is away. */
export const sessionProblem = signal<Problem | undefined>(undefined);

/** Finds the session that the cookie names, if any. */
export async function findSession(): Promise<void> {
  const answer = await request<Session>("GET", "/session");
  sessionProblem.value = undefined;
  if (answer.ok) begin(answer.value);
  else if (answer.error.status === 401) session.value = null;
  else sessionProblem.value = answer.error;
}

export interface Login {
  readonly login: string;
  readonly password: string;
  /** The one-time code, once the server has asked for it. */
  readonly code?: string;
}

export async function signIn(login: Login): Promise<Answer<Session>> {
  const answer = await request<Session>("POST", "/session", { body: login });
  if (answer.ok) begin(answer.value);
  return answer;
}

export async function signOut(): Promise<Answer<unknown>> {
  const answer = await request("DELETE", "/session");
  if (answer.ok || answer.error.status === 401) session.value = null;
  return answer;
}

/** Whether a refused sign-in asks for the one-time code. */
export function wantsCode(problem: Problem | undefined): boolean {
  return (problem?.body as { totp?: unknown } | undefined)?.totp === true;
}

/** The reseller whose zones a session is confined to, if it is. */
export function ownReseller({ role, scope }: Session): string | undefined {
  return role === "reseller" || role === "company" ? scope?.split("/")[0] : undefined;
}

/** The company whose zones a session is confined to, if it is. */
export function ownCompany({ role, scope }: Session): string | undefined {
  return role === "company" ? scope?.split("/")[1] : undefined;
}

function begin(found: Session): void {
  useCredentials(found.csrf ?? "", () => {
    session.value = null;
  });
  session.value = found;
}
