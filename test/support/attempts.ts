import type { AttemptFacts, AttemptPath } from "../../services/core/mail/delivery-attempt.ts";

export const attemptPath: AttemptPath = {
  exchanger: "mx.example.org",
  address: "192.0.2.25",
  source: "198.51.100.1",
  tls: "TLSv1.3",
  cipher: "TLS_AES_256_GCM_SHA384",
  certificate: "valid",
  policy: "",
};

/** What was seen in an attempt that went well, but for what is given. */
export function attemptFacts(facts: Partial<AttemptFacts> = {}): AttemptFacts {
  return {
    endedAt: new Date(),
    durationMs: 20,
    stage: "",
    code: 250,
    status: "",
    reason: "",
    path: attemptPath,
    ...facts,
  };
}
