/** What keeps the embedded PostgreSQL from running, for a caller that wants to tell the cases apart. */
export type EmbeddedPostgresFailure =
  | "unsupported-platform"
  | "no-package"
  | "binaries-unusable"
  | "no-unprivileged-user"
  | "data-folder-unusable"
  | "disk-full"
  | "other-major-version"
  | "password-missing"
  | "initialisation-failed"
  | "start-failed"
  | "stop-failed";

/**
 * The embedded PostgreSQL cannot do what was asked. The message is meant for the operator: it says what is wrong,
 * where, and what to do about it.
 */
export class EmbeddedPostgresError extends Error {
  override readonly name = "EmbeddedPostgresError";
  readonly failure: EmbeddedPostgresFailure;

  constructor(failure: EmbeddedPostgresFailure, message: string, options?: ErrorOptions) {
    super(message, options);
    this.failure = failure;
  }
}

/** Says what a failed file operation in the data folder means; any other error is handed back as it is. */
export function explainFileError(error: unknown, folder: string): unknown {
  switch (errorCode(error)) {
    case "ENOENT":
    case "EACCES":
    case "EPERM":
    case "EROFS":
    case "ENOTDIR":
    case "EEXIST":
      return new EmbeddedPostgresError(
        "data-folder-unusable",
        `the data folder ${folder} cannot be used: ${error instanceof Error ? error.message : error}`,
        { cause: error },
      );
    case "ENOSPC":
    case "EDQUOT":
      return diskFull(folder, error);
    default:
      return error;
  }
}

/** The error for a PostgreSQL program that failed, from what it wrote. */
export function explainProgramOutput(
  failure: EmbeddedPostgresFailure,
  what: string,
  output: string,
  folder: string,
): EmbeddedPostgresError {
  if (/No space left on device|Disk quota exceeded|Check free disk space/.test(output)) return diskFull(folder);
  return new EmbeddedPostgresError(failure, `${what}:\n${output.trim()}`);
}

/** The `code` of a system or database error. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined;
}

function diskFull(folder: string, cause?: unknown): EmbeddedPostgresError {
  const message = `the disk that holds the data folder ${folder} is full`;
  return new EmbeddedPostgresError("disk-full", message, cause === undefined ? undefined : { cause });
}
