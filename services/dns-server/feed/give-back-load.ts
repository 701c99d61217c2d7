import { giveBackMemory } from "../../platform/give-back-memory.ts";

/**
 * Gives back what a load of many zones has left behind as they streamed past: on the heap of V8, and on Linux on that of
 * the C library, which keeps what was freed below something that is still there.
 */
export async function giveBackLoad(): Promise<void> {
  giveBackMemory();
  if (process.platform !== "linux") return;
  try {
    const { default: koffi } = await import("koffi");
    koffi.load(null).func("int malloc_trim(size_t)")(0);
  } catch {
    // No build of koffi for this system, or a C library without it.
  }
}
