/** Seconds of processor time that a process has had; undefined where that cannot be read. */
export type ProcessorTime = () => number | undefined;

/**
 * Runs a phase, and prints the processor time that each process spent in it, for a message: a figure that does not
 * depend on what else the machine has to do.
 * @param load.measured processes by what they are
 */
export async function reportProcessorTime<T>(
  phase: string,
  load: { readonly measured: ReadonlyMap<string, ProcessorTime>; readonly messages: number },
  run: () => Promise<T>,
): Promise<T> {
  const read = () => new Map([...load.measured].map(([name, secondsOf]) => [name, secondsOf() ?? 0]));
  const before = read();
  const result = await run();
  const spent = [...read()].map(([name, seconds]) => {
    const milliseconds = (seconds - (before.get(name) ?? 0)) * 1000;
    return `${name} ${(milliseconds / load.messages).toFixed(3)}`;
  });
  process.stdout.write(`${phase}, ms of processor time for a message: ${spent.join(", ")}\n`);
  return result;
}
