import { Secret, TOTP } from "otpauth";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { purgeAudit } from "../../services/store/console/audit.ts";
import { purgeLockouts } from "../../services/store/console/console-lockouts.ts";
import { purgeSessions } from "../../services/store/console/sessions.ts";
import { PASSWORD, startConsole, type TestConsole } from "../support/console.ts";

let palomar: TestConsole;

beforeAll(async () => {
  palomar = await startConsole([], { PALOMAR_TRUSTED_PROXIES: "127.0.0.1" });
  // However long a password takes to judge on a busy machine: no code and no wait ends by itself.
  palomar.clock.stand();
});
afterAll(async () => {
  await palomar.stop();
  expect(palomar.failures).toEqual([]);
});

const basic = (login: string, password: string) => ({
  Authorization: `Basic ${Buffer.from(`${login}:${password}`).toString("base64")}`,
});
const attempt = (login: string, password: string, code?: string) =>
  palomar.call("POST", "/session", { login, password, ...(code === undefined ? {} : { code }) });
const attemptFrom = (address: string, login: string, password: string) =>
  palomar.call("POST", "/session", { login, password }, { "X-Forwarded-For": address });

describe("signing in", () => {
  test("sets a cookie that scripts and other sites cannot use, and says who it is", async () => {
    const answer = await attempt("one", PASSWORD);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      login: "one",
      role: "reseller",
      scope: "one",
      csrf: expect.stringMatching(/^[\w-]{43}$/),
      totp: false,
    });
    const cookie = String(answer.headers["set-cookie"]);
    expect(cookie).toMatch(/^palomar_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Strict$/);
    const who = await palomar.call("GET", "/session", undefined, { Cookie: cookie.split(";")[0]! });
    expect(who).toMatchObject({ status: 200, body: answer.body });
  });

  test("over TLS at a proxy the cookie is Secure", async () => {
    const answer = await palomar.call(
      "POST",
      "/session",
      { login: "one", password: PASSWORD },
      { "X-Forwarded-Proto": "https" },
    );
    expect(String(answer.headers["set-cookie"])).toMatch(/; Secure$/);
  });

  test("a session is new for every sign-in, and ends the one that the visitor had", async () => {
    const first = await palomar.signIn("two");
    const again = await palomar.call(
      "POST",
      "/session",
      { login: "two", password: PASSWORD },
      { Cookie: first.cookie },
    );
    expect(String(again.headers["set-cookie"])).not.toContain(first.cookie);
    expect((await first.call("GET", "/session")).status).toBe(401);
  });

  test.each([
    ["a wrong password", "one", "wrong"],
    ["an unknown login", "nobody", "wrong"],
    ["a login with NUL", "on\0e", "wrong"],
  ])("%s is one and the same answer", async (_, login, password) => {
    const answer = await attempt(login, password);
    if (login.includes("\0")) expect(answer.status).toBe(400);
    else expect(answer).toMatchObject({ status: 401, body: { msg: "login or password is wrong" } });
    expect(answer.headers["set-cookie"]).toBeUndefined();
  });

  test("without a session: 401, and a challenge that no browser puts a dialog up for", async () => {
    const tool = await palomar.call("GET", "/session");
    expect(tool).toMatchObject({ status: 401, body: { msg: expect.any(String) } });
    expect(tool.headers["www-authenticate"]).toMatch(/^Basic /);
    const browser = await palomar.call("GET", "/session", undefined, { "User-Agent": "Mozilla/5.0 (X11)" });
    expect(browser.headers["www-authenticate"]).toMatch(/^Session /);
  });

  test("a page of another site cannot sign a visitor in", async () => {
    const answer = await palomar.call(
      "POST",
      "/session",
      { login: "one", password: PASSWORD },
      { "Sec-Fetch-Site": "cross-site" },
    );
    expect(answer.status).toBe(403);
  });

  test("nor by a form, where the browser does not say that it comes from another site", async () => {
    const signIn = (type: string) =>
      palomar.call(
        "POST",
        "/session",
        { login: "one", password: PASSWORD },
        { Origin: "http://evil.example.net", "Content-Type": type },
      );
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "text/plain; application/json"]) {
      expect((await signIn(type)).status).toBe(403);
    }
    expect((await signIn("application/json; charset=utf-8")).status).toBe(200);
  });

  test("signing out ends the session and takes the cookie back", async () => {
    const session = await palomar.signIn("two");
    const out = await session.call("DELETE", "/session");
    expect(out).toMatchObject({ status: 200, body: { msg: "signed out" } });
    expect(String(out.headers["set-cookie"])).toMatch(/^palomar_session=; .*Max-Age=0/);
    expect((await session.call("GET", "/session")).status).toBe(401);
  });

  test("what is stored opens no session", async () => {
    const session = await palomar.signIn("two");
    const rows = await palomar.database.db("console_sessions").select();
    const token = session.cookie.split("=")[1]!;
    expect(JSON.stringify(rows)).not.toContain(token);
    expect(rows.some(({ token_hash }) => token_hash.equals(Buffer.from(token, "base64url")))).toBe(false);
  });
});

describe("HTTP Basic", () => {
  test("is taken without a CSRF token", async () => {
    const who = await palomar.call("GET", "/session", undefined, basic("operator", PASSWORD));
    expect(who).toMatchObject({ status: 200, body: { login: "operator", role: "operator", scope: null, csrf: null } });
    const made = await palomar.call("POST", "/users", { login: "b1", role: "operator" }, basic("operator", PASSWORD));
    expect(made.status).toBe(200);
  });

  test.each(["wrong", ""])("the password %j is refused", async (password) => {
    expect((await palomar.call("GET", "/session", undefined, basic("operator", password))).status).toBe(401);
  });

  test("a login with NUL is nobody's", async () => {
    expect((await palomar.call("GET", "/session", undefined, basic("op\0erator", PASSWORD))).status).toBe(401);
  });

  test("twenty requests at once are one check of the password", async () => {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => palomar.call("GET", "/session", undefined, basic("two", PASSWORD))),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
  });

  test("a password that was right a moment ago is wrong once it was changed", async () => {
    const { password } = (await palomar.users.operator.call("POST", "/users", { login: "b2", role: "operator" })).body;
    expect((await palomar.call("GET", "/session", undefined, basic("b2", password))).status).toBe(200);
    await palomar.users.operator.call("POST", "/users/b2/reset");
    expect((await palomar.call("GET", "/session", undefined, basic("b2", password))).status).toBe(401);
  });
});

describe("the CSRF token", () => {
  test.each<Record<string, string>>([{}, { "X-CSRF-Token": "" }, { "X-CSRF-Token": "a".repeat(43) }])(
    "%j changes nothing",
    async (headers) => {
      const { cookie } = palomar.users.operator;
      const answer = await palomar.call(
        "POST",
        "/users",
        { login: "c1", role: "operator" },
        { Cookie: cookie, ...headers },
      );
      expect(answer).toMatchObject({ status: 403, body: { msg: "csrf token missing or wrong" } });
    },
  );

  test("of another session is wrong", async () => {
    const { cookie } = palomar.users.operator;
    const { csrf } = await palomar.signIn("one");
    const answer = await palomar.call(
      "POST",
      "/users",
      { login: "c1", role: "operator" },
      { Cookie: cookie, "X-CSRF-Token": csrf },
    );
    expect(answer.status).toBe(403);
  });
});

describe("sessions in time", () => {
  test("end unused after twelve hours, and used after seven days", async () => {
    const idle = await palomar.signIn("north");
    palomar.clock.advance(11 * 3_600_000);
    const used = await palomar.signIn("south");
    expect((await idle.call("GET", "/session")).status).toBe(200);
    palomar.clock.advance(13 * 3_600_000);
    expect((await idle.call("GET", "/session")).status).toBe(401);
    expect((await used.call("GET", "/session")).status).toBe(401);
    const busy = await palomar.signIn("south");
    for (let hours = 0; hours < 7 * 24 - 8; hours += 8) {
      palomar.clock.advance(8 * 3_600_000);
      expect((await busy.call("GET", "/session")).status).toBe(200);
    }
    palomar.clock.advance(8 * 3_600_000);
    expect((await busy.call("GET", "/session")).status).toBe(401);
  });

  test("are listed, and ended one by one: one's own only", async () => {
    const [first, second] = [await palomar.signIn("north"), await palomar.signIn("north")];
    const other = await palomar.signIn("south");
    const { sessions } = (await second.call("GET", "/sessions")).body;
    expect(sessions[0]).toMatchObject({ current: true, address: "127.0.0.1" });
    const firstId = sessions[1].id;
    expect(await other.call("DELETE", `/sessions/${firstId}`)).toMatchObject({ status: 404 });
    expect(await second.call("DELETE", `/sessions/${firstId}`)).toMatchObject({ status: 200, body: { msg: "ended" } });
    expect((await first.call("GET", "/session")).status).toBe(401);
    expect((await second.call("GET", "/session")).status).toBe(200);
  });

  test("a sign-in that was under way when the account was reset, or deleted, begins none", async () => {
    const operator = await palomar.signIn("operator");
    for (const end of ["reset", "delete"] as const) {
      const { password } = (await operator.call("POST", "/users", { login: "late", role: "operator" })).body;
      let isEnded = false;
      // Again and again, so that some are under way then, and once more afterwards.
      const attempts = Array.from({ length: 12 }, async (_, index) => {
        await new Promise((resolve) => setTimeout(resolve, index * 15));
        const own: { status: number; cookie: string }[] = [];
        let isLast = false;
        do {
          isLast = isEnded;
          const { status, headers } = await attemptFrom(`192.0.2.${index + 1}`, "late", password);
          own.push({ status, cookie: String(headers["set-cookie"]).split(";")[0]! });
        } while (!isLast && own.at(-1)!.status === 200);
        return own;
      });
      await new Promise((resolve) => setTimeout(resolve, 60));
      const ended =
        end === "reset"
          ? await operator.call("POST", "/users/late/reset")
          : await operator.call("DELETE", "/users/late");
      isEnded = true;
      expect(ended.status).toBe(200);
      const answers = (await Promise.all(attempts)).flat();
      expect(answers.map(({ status }) => status).filter((status) => status !== 200 && status !== 401)).toEqual([]);
      expect(answers.some(({ status }) => status === 401)).toBe(true);
      for (const { cookie } of answers.filter(({ status }) => status === 200)) {
        expect((await palomar.call("GET", "/session", undefined, { Cookie: cookie })).status).toBe(401);
      }
      await operator.call("DELETE", "/users/late");
    }
  });

  test("nobody resets the own account, whose new password nobody would see", async () => {
    const operator = await palomar.signIn("operator");
    expect(await operator.call("POST", "/users/operator/reset")).toMatchObject({
      status: 400,
      body: { code: "own-reset" },
    });
  });

  test("a changed password ends the other sessions", async () => {
    const [mine, other] = [await palomar.signIn("south"), await palomar.signIn("south")];
    const next = "another long password";
    expect(await mine.call("PUT", "/password", { current: "wrong", new: next })).toMatchObject({
      status: 400,
      body: { msg: "the password is wrong" },
    });
    expect(await mine.call("PUT", "/password", { current: PASSWORD, new: "short" })).toMatchObject({ status: 400 });
    expect((await mine.call("PUT", "/password", { current: PASSWORD, new: next })).status).toBe(200);
    expect((await mine.call("GET", "/session")).status).toBe(200);
    expect((await other.call("GET", "/session")).status).toBe(401);
    expect((await attempt("south", PASSWORD)).status).toBe(401);
    expect((await attempt("south", next)).status).toBe(200);
  });
});

describe("one-time codes", () => {
  const codeOf = (secret: string, offsetSeconds = 0) =>
    new TOTP({ secret: Secret.fromBase32(secret) }).generate({
      timestamp: palomar.clock.nowMs() + offsetSeconds * 1000,
    });

  test("are asked for once they are turned on, each of them good for once, and recovery codes too", async () => {
    const [session, elsewhere] = [await palomar.signIn("two"), await palomar.signIn("two")];
    expect((await session.call("POST", "/totp")).body).toMatchObject({ msg: "missing field: password" });
    expect((await session.call("POST", "/totp", { password: "wrong" })).body.code).toBe("password-wrong");
    const { secret, uri } = (await session.call("POST", "/totp", { password: PASSWORD })).body;
    expect(uri).toMatch(/^otpauth:\/\/totp\/Palomar:two\?/);
    expect((await attempt("two", PASSWORD)).status).toBe(200);
    expect((await session.call("PUT", "/totp", { code: "000000" })).status).toBe(400);
    const on = await session.call("PUT", "/totp", { code: codeOf(secret) });
    expect(on).toMatchObject({ status: 200, body: { totp: true } });
    expect(on.body.recovery_codes).toHaveLength(10);
    expect((await elsewhere.call("GET", "/session")).status).toBe(401);
    expect((await session.call("GET", "/session")).body).toMatchObject({ totp: true });

    const failuresOfAddress = async () => {
      const rows = palomar.database.db("console_lockouts").where("subject", "like", "address:%");
      return (await rows.pluck("failures")).reduce((sum, failures) => sum + failures, 0);
    };
    const before = await failuresOfAddress();
    expect(await attempt("two", PASSWORD)).toMatchObject({
      status: 401,
      body: { msg: "one-time code required", totp: true },
    });
    // An office of many who sign in so is not taken for one who guesses; with a wrong code it is.
    expect(await failuresOfAddress()).toBe(before);
    expect((await attempt("two", PASSWORD, "000000")).status).toBe(401);
    expect(await failuresOfAddress()).toBe(before + 1);
    // The code that turned them on has been used.
    expect((await attempt("two", PASSWORD, codeOf(secret))).status).toBe(401);
    palomar.clock.advance(60_000);
    const code = codeOf(secret);
    expect(await attempt("two", PASSWORD, code)).toMatchObject({ status: 200, body: { totp: true } });
    expect((await attempt("two", PASSWORD, code)).status).toBe(401);
    const recovery = on.body.recovery_codes[0];
    expect((await attempt("two", PASSWORD, recovery)).status).toBe(200);
    palomar.clock.advance(60_000);
    expect((await attempt("two", PASSWORD, recovery)).status).toBe(401);
    const stored = await palomar.database.db("users").where({ login: "two" }).first();
    expect(JSON.stringify(stored)).not.toContain(secret);

    expect((await palomar.call("GET", "/session", undefined, basic("two", PASSWORD))).status).toBe(403);
    palomar.clock.advance(60_000);
    const other = await palomar.call("POST", "/session", { login: "two", password: PASSWORD, code: codeOf(secret) });
    const cookie = String(other.headers["set-cookie"]).split(";")[0]!;
    expect((await palomar.call("GET", "/session", undefined, { cookie })).status).toBe(200);
    expect((await session.call("DELETE", "/totp", { password: "wrong" })).status).toBe(400);
    expect(await session.call("DELETE", "/totp", { password: PASSWORD })).toMatchObject({
      status: 200,
      body: { totp: false },
    });
    expect((await palomar.call("GET", "/session", undefined, { cookie })).status).toBe(401);
    expect((await session.call("GET", "/session")).status).toBe(200);
    expect((await attempt("two", PASSWORD)).status).toBe(200);
  });

  test("a session alone cannot set them up: wrong passwords count as those of a sign-in do", async () => {
    const session = await palomar.signIn("south", "another long password");
    for (let failure = 0; failure < 5; failure += 1) {
      expect((await session.call("POST", "/totp", { password: "wrong" })).status).toBe(400);
    }
    expect((await session.call("POST", "/totp", { password: "another long password" })).status).toBe(429);
    palomar.clock.advance(3_600_000);
  });

  test("go with a reset of the account, which ends its sessions and is in the audit log", async () => {
    const session = await palomar.signIn("two");
    const { secret } = (await session.call("POST", "/totp", { password: PASSWORD })).body;
    expect((await session.call("PUT", "/totp", { code: codeOf(secret) })).status).toBe(200);
    const operator = await palomar.signIn("operator");
    const reset = (await operator.call("POST", "/users/two/reset")).body;
    expect((await session.call("GET", "/session")).status).toBe(401);
    expect(await attempt("two", reset.password)).toMatchObject({ status: 200, body: { totp: false } });
    const { audit } = (await operator.call("GET", "/audit?limit=10")).body;
    expect(audit.find(({ action }: { action: string }) => action === "user.reset")).toMatchObject({
      ...{ actor: "operator", object: "two", outcome: "done", detail: { totp: false } },
    });
    const mine = await palomar.signIn("two", reset.password);
    expect((await mine.call("PUT", "/password", { current: reset.password, new: PASSWORD })).status).toBe(200);
  });
});

describe("lock-out", () => {
  test("a login that keeps being wrong has to wait, ever longer, the right password too, sessions live on", async () => {
    const session = await palomar.signIn("acme");
    for (let failure = 0; failure < 5; failure += 1) expect((await attempt("acme", "wrong")).status).toBe(401);
    const locked = await attempt("acme", PASSWORD);
    expect(locked.status).toBe(429);
    expect(Number(locked.headers["retry-after"])).toBeGreaterThan(0);
    expect((await palomar.call("GET", "/session", undefined, basic("acme", PASSWORD))).status).toBe(429);
    expect((await session.call("GET", "/session")).status).toBe(200);
    palomar.clock.advance(6_000);
    expect((await attempt("acme", "wrong")).status).toBe(401);
    const again = await attempt("acme", PASSWORD);
    expect(Number(again.headers["retry-after"])).toBeGreaterThan(5);
    palomar.clock.advance(11_000);
    expect((await attempt("acme", PASSWORD)).status).toBe(200);
    expect((await attempt("acme", "wrong")).status).toBe(401);
    expect((await attempt("acme", PASSWORD)).status).toBe(200);
  });

  test("a stranger's guesses lock nobody out who comes from elsewhere", async () => {
    for (let failure = 0; failure < 5; failure += 1) {
      expect((await attemptFrom("198.51.100.7", "north", "wrong")).status).toBe(401);
    }
    expect((await attemptFrom("198.51.100.7", "north", PASSWORD)).status).toBe(429);
    expect((await attemptFrom("192.0.2.50", "north", PASSWORD)).status).toBe(200);
    // Of IPv6 a whole /64 is one stranger.
    for (let failure = 0; failure < 5; failure += 1) {
      expect((await attemptFrom(`2001:db8:1:2::${failure}`, "north", "wrong")).status).toBe(401);
    }
    expect((await attemptFrom("2001:db8:1:2:ffff::1", "north", PASSWORD)).status).toBe(429);
    expect((await attemptFrom("2001:db8:1:3::1", "north", PASSWORD)).status).toBe(200);
  });

  test("a hundred guesses from anywhere bring short waits to strangers, none to known addresses", async () => {
    expect((await attemptFrom("192.0.2.60", "operator", PASSWORD)).status).toBe(200);
    expect((await attemptFrom("198.51.100.1", "operator", "wrong")).status).toBe(401);
    const many = "update console_lockouts set failures = 99 where subject like 'login:%' and failures = 1";
    await palomar.database.db.raw(many);
    expect((await attemptFrom("198.51.100.2", "operator", "wrong")).status).toBe(401);
    const locked = await attemptFrom("198.51.100.3", "operator", PASSWORD);
    expect(locked.status).toBe(429);
    expect(Number(locked.headers["retry-after"])).toBeLessThanOrEqual(60);
    expect((await attemptFrom("192.0.2.60", "operator", PASSWORD)).status).toBe(200);
    expect((await attemptFrom("192.0.2.60", "operator", "wrong")).status).toBe(401);
    palomar.clock.advance(61_000);
    expect((await attemptFrom("198.51.100.3", "operator", PASSWORD)).status).toBe(200);
  });

  test("who has an address of a known /64 is known, as browsers change theirs within it", async () => {
    palomar.clock.advance(3_600_001);
    expect((await attemptFrom("2001:db8:7:7::1", "operator", PASSWORD)).status).toBe(200);
    expect((await attemptFrom("198.51.100.20", "operator", "wrong")).status).toBe(401);
    const many = "update console_lockouts set failures = 99 where subject like 'login:%' and failures > 0";
    await palomar.database.db.raw(many);
    expect((await attemptFrom("198.51.100.21", "operator", "wrong")).status).toBe(401);
    expect((await attemptFrom("2001:db8:7:8::1", "operator", PASSWORD)).status).toBe(429);
    expect((await attemptFrom("2001:db8:7:7:ffff::2", "operator", PASSWORD)).status).toBe(200);
    palomar.clock.advance(3_600_001);
  });

  test("what is refused unjudged counts for nobody else at its address", async () => {
    const address = "203.0.113.20";
    for (let failure = 0; failure < 5; failure += 1) await attemptFrom(address, "acme", "stale");
    for (let refused = 0; refused < 40; refused += 1) {
      expect((await attemptFrom(address, "acme", "stale")).status).toBe(429);
    }
    expect((await attemptFrom(address, "north", PASSWORD)).status).toBe(200);
    const counts = palomar.database.db("console_lockouts").where({ subject: `address:${address}` });
    expect(await counts.clone().pluck("failures")).toEqual([5]);
    // One attempt in a quarter of an hour is judged; a colleague's that succeed do not keep it from being forgotten.
    for (let minute = 0; minute < 60; minute += 1) {
      palomar.clock.advance(60_000);
      await attemptFrom(address, "acme", "stale");
      if (minute % 5 === 2) expect((await attemptFrom(address, "north", PASSWORD)).status).toBe(200);
    }
    expect((await counts.pluck("failures"))[0]).toBeLessThan(5);
    palomar.clock.advance(3_600_001);
  });

  test("waits are in the audit log of whoever answers for the account, and are the same for nobody's login", async () => {
    const guess = async (login: string) => {
      const answers: unknown[] = [];
      for (let count = 0; count < 6; count += 1) {
        const { status, body, headers } = await attemptFrom("203.0.113.9", login, "wrong");
        answers.push([status, body, headers["retry-after"] === undefined]);
      }
      return answers;
    };
    expect(await guess("south")).toEqual(await guess("no-such-login"));
    const waits = async (login: string) =>
      (await (await palomar.signIn(login)).call("GET", "/audit?limit=1000")).body.audit
        .filter(({ action, address }: Record<string, string>) => action === "sign-in.wait" && address === "203.0.113.9")
        .map(({ actor, object, detail }: Record<string, Record<string, unknown>>) => [actor, object, detail!.limit]);
    expect(await waits("operator")).toEqual([
      ["?", "no-such-login", "address and login"],
      ["?", "south", "address and login"],
    ]);
    expect(await waits("two")).toEqual([]);
  });

  test("guesses at the same moment count as many", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => attempt("one", `guess ${index}`)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(15);
    palomar.clock.advance(3_600_000);
  });

  test("attempts at the same moment that are right count for none of the others", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => attempt("one", PASSWORD)));
    const refused = answers.filter(({ status }) => status !== 200);
    // One is judged, sixteen wait.
    expect(answers.length - refused.length).toBeGreaterThanOrEqual(17);
    expect(refused.every(({ status, headers }) => status === 429 && headers["retry-after"] === "5")).toBe(true);
    expect((await attempt("one", PASSWORD)).status).toBe(200);
  });

  test("what one address asks for beyond its turns is refused, and does not count", async () => {
    const address = "203.0.113.40";
    const guesses = Array.from({ length: 28 }, (_, index) => attemptFrom(address, `nobody-${index}`, "wrong"));
    const answers = await Promise.all(guesses);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(0);
    expect(refused.every(({ headers }) => headers["retry-after"] === "5")).toBe(true);
    const counts = palomar.database.db("console_lockouts").where({ subject: `address:${address}` });
    expect(await counts.pluck("failures")).toEqual([28 - refused.length]);
    expect((await attemptFrom(address, "north", PASSWORD)).status).toBe(200);
  });

  test("an address that tries many logins has to wait, on loopback as well", async () => {
    expect((await attempt("nobody-1", "wrong")).status).toBe(401);
    await palomar.database.db("console_lockouts").where({ subject: "address:127.0.0.1" }).update({ failures: 28 });
    expect((await attempt("nobody-2", "wrong")).status).toBe(401);
    expect((await attempt("nobody-3", "wrong")).status).toBe(401);
    expect((await attempt("nobody-4", "wrong")).status).toBe(429);
    palomar.clock.advance(3_600_000);
    expect((await attempt("one", PASSWORD)).status).toBe(200);
  });
});

test("what is old is removed, also while somebody works on some of it, which waits for the next time", async () => {
  const { db } = palomar.database;
  const now = new Date(palomar.clock.nowMs());
  const [longAgo, before] = [40, 30].map((days) => new Date(now.getTime() - days * 86_400_000)) as [Date, Date];
  const { id: user_id } = await db("users").where({ login: "one" }).first("id");
  const whose = { address: "192.0.2.9", agent: "old", created_at: longAgo, seen_at: longAgo };
  const entry = {
    at: longAgo,
    actor: "one",
    address: "192.0.2.9",
    object: "old",
    scope_role: "reseller",
    scope: "one",
  };
  const [first] = await db("console_audit")
    .insert(["first", "second"].map((action) => ({ ...entry, action })))
    .returning("id");
  await db("console_lockouts").insert(
    ["old:first", "old:second"].map((subject) => ({ subject, failures: 1, last_at: longAgo })),
  );
  await db("console_sessions").insert(
    ["first", "second"].map((token) => ({ ...whose, user_id, token_hash: Buffer.from(token) })),
  );
  const purge = async () => {
    await purgeAudit(db, before);
    await purgeLockouts(db, before);
    await purgeSessions(db, { idleSeconds: 86_400, mostSeconds: 86_400 * 7 }, now);
  };
  const left = async () => [
    (await db("console_audit").where({ object: "old" })).length,
    (await db("console_lockouts").whereLike("subject", "old:%")).length,
    (await db("console_sessions").where({ agent: "old" })).length,
  ];
  await db.transaction(async (busy) => {
    await busy("console_audit").where({ id: first.id }).forUpdate().select("id");
    await busy("console_lockouts").where({ subject: "old:first" }).forUpdate().select("subject");
    await busy("console_sessions")
      .where({ token_hash: Buffer.from("first") })
      .forUpdate()
      .select("id");
    await purge();
    expect(await left()).toEqual([1, 1, 1]);
  });
  await purge();
  expect(await left()).toEqual([0, 0, 0]);
});
