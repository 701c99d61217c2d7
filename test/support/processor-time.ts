/** Milliseconds of processor time that this process has had: unlike the clock's, nobody else's work is in them. */
export function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
