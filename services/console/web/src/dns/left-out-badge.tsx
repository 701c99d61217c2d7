import { Badge } from "../components/badge.tsx";
import { texts } from "../texts.ts";

/** What name servers without memory for a zone make of it, and how bad that is. */
export const LEFT_OUT_TONES = { withheld: "bad", outdated: "warn" } as const;

interface LeftOutBadgeProps {
  readonly leftOut: keyof typeof LEFT_OUT_TONES;
}

/** Says that a zone, or its latest version, does not fit into the memory of the name servers. */
export function LeftOutBadge({ leftOut }: LeftOutBadgeProps) {
  return <Badge tone={LEFT_OUT_TONES[leftOut]}>{texts().dns.leftOut[leftOut]}</Badge>;
}
