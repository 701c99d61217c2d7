/**
 * The database answers, and this release or this secret cannot work with it. The message is meant for the operator: it
 * says what does not fit, and what to do about it.
 */
export class UnsuitableDatabase extends Error {
  override readonly name = "UnsuitableDatabase";
}
