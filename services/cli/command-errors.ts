/** The command was understood and is not done: exit status 1. */
export class CommandRefused extends Error {}

/** The command was called wrongly: exit status 2. */
export class CommandMisused extends Error {}
