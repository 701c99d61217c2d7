import { computed, effect, signal } from "@preact/signals";
import { request } from "./http.ts";
import { ownReseller, session } from "./session.ts";
import { storedChoice } from "./stored-choice.ts";

type Kind = "reseller" | "instance";

/** What an operator may choose from; a confined account has its one. */
const listed = { reseller: signal<readonly string[]>([]), instance: signal<readonly string[]>([]) };
const chosen = {
  reseller: storedChoice("reseller", (stored) => stored ?? ""),
  instance: storedChoice("instance", (stored) => stored ?? ""),
};

const own = {
  reseller: computed(() => (session.value ? ownReseller(session.value) : undefined)),
  instance: computed(() => (session.value?.role === "instance" ? (session.value.scope ?? undefined) : undefined)),
};

/** The resellers or instances that the reader can choose from. */
export function choicesOf(kind: Kind): readonly string[] {
  const confined = own[kind].value;
  return confined === undefined ? listed[kind].value : [confined];
}

/** The reseller or instance that the navigation leads to; "" when there is none yet. */
export function currentScope(kind: Kind): string {
  const choices = choicesOf(kind);
  return choices.includes(chosen[kind].value) ? chosen[kind].value : (choices[0] ?? "");
}

export function chooseScope(kind: Kind, scope: string): void {
  chosen[kind].value = scope;
}

/** Reads what there is to choose from: after the sign-in, and when a reseller or instance was added. */
export async function loadScopes(): Promise<void> {
  if (session.peek()?.role !== "operator") return;
  const [resellers, instances] = await Promise.all([
    request<{ resellers: { reseller_id: string }[] }>("GET", "/resellers"),
    request<{ instances: { name: string }[] }>("GET", "/instances"),
  ]);
  if (resellers.ok) listed.reseller.value = resellers.value.resellers.map(({ reseller_id }) => reseller_id);
  if (instances.ok) listed.instance.value = instances.value.instances.map(({ name }) => name);
}

effect(() => {
  if (session.value) void loadScopes();
});
