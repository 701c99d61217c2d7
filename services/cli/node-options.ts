import type { ServiceName } from "../platform/service.ts";

/**
 * How Node is to run a service's process. The DNS server's zones stream past once: a young generation that has grown for
 * them would stay that large.
 */
export const NODE_OPTIONS_OF: { readonly [name in ServiceName]?: readonly string[] } = {
  "dns-server": ["--max-semi-space-size=4"],
};
