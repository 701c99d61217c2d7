import { Loaded } from "../../components/loaded.tsx";
import { useFetched } from "../../fetched.ts";
import { dnsApi } from "../paths.ts";
import { SignForm } from "./sign-form.tsx";
import { SignedZone } from "./signed-zone.tsx";
import type { Signing } from "./signing.ts";
import type { ZoneTabProps } from "./zone-tab.ts";

const REFRESH_MS = 10_000;

/** Whether the zone is signed, by which keys, and what the parent zone needs to know. */
export function DnssecTab({ reseller, soa, changed }: ZoneTabProps) {
  const path = dnsApi(reseller, "dnssec", soa.domain);
  const signing = useFetched<Signing>(path, REFRESH_MS);
  const reload = () => {
    signing.reload();
    changed();
  };
  return (
    <Loaded of={signing}>
      {(found) =>
        found.enabled ? (
          <SignedZone path={path} signing={found} reload={reload} />
        ) : (
          <SignForm path={path} onSigned={reload} />
        )
      }
    </Loaded>
  );
}
