import { type ChildProcess, spawn } from "node:child_process";

/** What a program said until it ended. */
export interface ProgramOutput {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MOST_OCTETS = 8 * 2 ** 20;
/** Debian keeps servers where users do not look. */
export const PROGRAM_PATH = `${"/usr/local/bin:/usr/bin:/bin"}:/usr/local/sbin:/usr/sbin:/sbin`;

/**
 * Runs a program to its end.
 * @returns undefined when there is no such program
 * @throws when it takes longer than `deadlineMs`
 */
export function runProgram(
  command: readonly [string, ...string[]],
  options: { readonly input: Buffer; readonly deadlineMs: number; readonly home: string },
): Promise<ProgramOutput | undefined> {
  const [program, ...args] = command;
  const child = spawn(program, args, { env: { PATH: PROGRAM_PATH, HOME: options.home, LANG: "C.UTF-8" } });
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`${program} gave no answer within ${options.deadlineMs} ms`));
    }, options.deadlineMs);
    const stdout = collect(child, "stdout");
    const stderr = collect(child, "stderr");
    child.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      if (error.code === "ENOENT") resolve(undefined);
      else reject(error);
    });
    child.once("close", (status) => {
      clearTimeout(timer);
      resolve({ status, stdout: stdout(), stderr: stderr() });
    });
    // Who does not want all of its input may end before.
    child.stdin?.on("error", () => {});
    child.stdin?.end(options.input);
  });
}

function collect(child: ChildProcess, name: "stdout" | "stderr"): () => string {
  const pieces: Buffer[] = [];
  let octets = 0;
  child[name]?.on("data", (piece: Buffer) => {
    octets += piece.length;
    if (octets <= MOST_OCTETS) pieces.push(piece);
  });
  return () => Buffer.concat(pieces).toString("utf8");
}
