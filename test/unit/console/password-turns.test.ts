import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { PasswordTurns } from "../../../services/console/password-turns.ts";
import { ok } from "../../../services/core/result.ts";

/** Work that is done when it is told to, and in which order it was begun. */
function bench() {
  const turns = new PasswordTurns();
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const ask = (address: string, login = "somebody", name = address) =>
    turns.run({ login, address }, async () => {
      begun.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return ok(undefined);
    });
  const end = async (name: string) => {
    ends.get(name)!();
    for (let turn = 0; turn < 10; turn += 1) await nextTurn();
  };
  return { turns, begun, ask, end };
}

test("strangers take turns one by one, in turn by network, and hold up nobody whose login was right from there", async () => {
  const { turns, begun, ask, end } = bench();
  turns.noteRight({ login: "ana", address: "2001:db8:1:2::1" });
  for (const last of [1, 2, 3]) void ask(`198.51.100.${last}`);
  void ask("192.0.2.1");
  void ask("2001:db8:1:2::2", "ana", "ana");
  void ask("2001:db8:1:3::2", "ana", "ana elsewhere");
  await nextTurn();
  expect(begun).toEqual(["198.51.100.1", "ana"]);
  await end("198.51.100.1");
  await end("198.51.100.2");
  await end("192.0.2.1");
  expect(begun.slice(2)).toEqual(["198.51.100.2", "192.0.2.1", "ana elsewhere"]);
  await end("ana elsewhere");
  expect(begun.at(-1)).toBe("198.51.100.3");
});

test("who asks for much at once has one piece of it in turn, and is refused what is beyond", async () => {
  const { begun, ask, end } = bench();
  const outcomes = Array.from({ length: 20 }, (_, index) => ask("198.51.100.1", "somebody", `first ${index}`));
  void ask("198.51.100.2");
  await nextTurn();
  expect(await Promise.all(outcomes.slice(17))).toMatchObject(
    [1, 2, 3].map(() => ({ ok: false, error: { kind: "rate-limited", retryAfterSeconds: 5 } })),
  );
  await end("first 0");
  expect(begun).toEqual(["first 0", "198.51.100.2"]);
});

test("so is a network with many addresses", async () => {
  const { ask } = bench();
  const outcomes = Array.from({ length: 70 }, (_, index) => ask(`198.51.100.${index}`));
  expect((await Promise.all(outcomes.slice(65))).map(({ ok: isDone }) => isDone)).toEqual(Array(5).fill(false));
});
