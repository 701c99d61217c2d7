/** What the authorised responder has found out about who asks. */
export interface Authority {
  /** Octets to keep free for a signature. */
  readonly reservedOctets: number;
  /** The answer, whatever is asked; undefined: the ordinary one. */
  readonly rcode?: number;
  /** Whether the client may ask this restricted zone, its apex in wire form and lower case. */
  mayRead(apex: Uint8Array): boolean;
}
