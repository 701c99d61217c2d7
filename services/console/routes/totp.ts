import { z } from "zod";

import { ok, refuse } from "../../core/result.ts";
import { confirmTotp, findTotp, removeTotp, setPendingTotp } from "../../store/console/users.ts";
import type { AdminCaller } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { hashRecoveryCode, makeRecoveryCodes, makeTotp, totpStepOf } from "../one-time-codes.ts";
import { problem } from "../problems.ts";

const password = z.object({ password: z.string().max(1024) });

/** One-time codes as a second factor (RFC 6238). */
export const makeTotpEndpoints: MakeConsoleEndpoints = ({ db, keyRing, clock, signIn }) => {
  const change = (action: string) => ({ action, object: ({ caller }: { caller: AdminCaller }) => caller.login });
  return [
    consoleEndpoint({
      method: "POST",
      path: "/totp",
      summary:
        "Make a secret for one-time codes; the password confirms, and it counts once a code of it is given by PUT",
      change: change("totp.prepare"),
      fields: password,
      reply: z.object({ secret: z.string(), uri: z.string() }),
      act: async ({ caller, fields, clientAddress: address }) => {
        if (caller.hasTotp) return refuse(problem("totp-in-use"));
        const confirmed = await signIn.confirmPassword({ login: caller.login, password: fields.password, address });
        if (!confirmed.ok) return confirmed;
        const made = makeTotp(caller.login);
        await setPendingTotp(db, keyRing, caller.userId, made.secret);
        return ok(made);
      },
    }),
    consoleEndpoint({
      method: "PUT",
      path: "/totp",
      summary: "Turn one-time codes on, and end the other sessions; gives recovery codes, once",
      change: change("totp.turn-on"),
      fields: z.object({ code: z.string().max(64) }),
      reply: z.object({ totp: z.literal(true), recovery_codes: z.array(z.string()) }),
      act: async ({ caller, fields }) => {
        const { pending } = await findTotp(db, keyRing, caller.userId);
        if (pending === null) return refuse(problem("totp-not-begun"));
        const step = totpStepOf(pending, fields.code, clock.nowMs());
        if (step === undefined) return refuse(problem("totp-code-wrong"));
        const codes = makeRecoveryCodes();
        const recoveryHashes = codes.flatMap((code) => hashRecoveryCode(code) ?? []);
        await confirmTotp(db, caller.userId, { step, recoveryHashes }, caller.session?.id ?? null);
        return ok({ totp: true as const, recovery_codes: codes });
      },
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/totp",
      summary: "Turn one-time codes off, and end the other sessions",
      change: change("totp.turn-off"),
      queryFields: [],
      fields: password,
      reply: z.object({ totp: z.literal(false) }),
      act: async ({ caller, fields, clientAddress: address }) => {
        const confirmed = await signIn.confirmPassword({ login: caller.login, password: fields.password, address });
        if (!confirmed.ok) return confirmed;
        await removeTotp(db, caller.userId, caller.session?.id ?? null);
        return ok({ totp: false as const });
      },
    }),
  ];
};
