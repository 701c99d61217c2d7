import { z } from "zod";

import { ok, refuse } from "../../core/result.ts";
import { confirmTotp, findTotp, removeTotp, setPendingTotp } from "../../store/console/users.ts";
import type { AdminCaller } from "../caller.ts";
import { consoleEndpoint, type MakeConsoleEndpoints } from "../endpoint.ts";
import { hashRecoveryCode, makeRecoveryCodes, makeTotp, totpStepOf } from "../one-time-codes.ts";
import { problem } from "../problems.ts";

/** One-time codes as a second factor (RFC 6238). */
export const makeTotpEndpoints: MakeConsoleEndpoints = ({ db, secret, clock, signIn }) => {
  const change = (action: string) => ({ action, object: ({ caller }: { caller: AdminCaller }) => caller.login });
  return [
    consoleEndpoint({
      method: "POST",
      path: "/totp",
      summary: "Make a secret for one-time codes; it counts once a code of it is given by PUT",
      change: change("totp.prepare"),
      reply: z.object({ secret: z.string(), uri: z.string() }),
      act: async ({ caller }) => {
        if (caller.hasTotp) return refuse(problem("totp-in-use"));
        const made = makeTotp(caller.login);
        await setPendingTotp(db, secret, caller.userId, made.secret);
        return ok(made);
      },
    }),
    consoleEndpoint({
      method: "PUT",
      path: "/totp",
      summary: "Turn one-time codes on; gives recovery codes, once",
      change: change("totp.turn-on"),
      fields: z.object({ code: z.string().max(64) }),
      reply: z.object({ totp: z.literal(true), recovery_codes: z.array(z.string()) }),
      act: async ({ caller, fields }) => {
        const { pending } = await findTotp(db, secret, caller.userId);
        if (pending === null) return refuse(problem("totp-not-begun"));
        const step = totpStepOf(pending, fields.code, clock.nowMs());
        if (step === undefined) return refuse(problem("totp-code-wrong"));
        const codes = makeRecoveryCodes();
        await confirmTotp(
          db,
          caller.userId,
          step,
          codes.flatMap((code) => hashRecoveryCode(code) ?? []),
        );
        return ok({ totp: true as const, recovery_codes: codes });
      },
    }),
    consoleEndpoint({
      method: "DELETE",
      path: "/totp",
      summary: "Turn one-time codes off",
      change: change("totp.turn-off"),
      queryFields: false,
      fields: z.object({ password: z.string().max(1024) }),
      reply: z.object({ totp: z.literal(false) }),
      act: async ({ caller, fields, clientAddress: address }) => {
        const confirmed = await signIn.confirmPassword({ login: caller.login, password: fields.password, address });
        if (!confirmed.ok) return confirmed;
        await removeTotp(db, caller.userId);
        return ok({ totp: false as const });
      },
    }),
  ];
};
