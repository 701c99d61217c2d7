/** Lets a loop sleep until it is called or some time has passed. A call while nobody sleeps is kept for the next one. */
export class WakeUp {
  #rung = false;
  #resolve: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#resolve?.();
  }

  /** What was called for until now is being done. */
  forget(): void {
    this.#rung = false;
  }

  async wait(milliseconds: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        this.#resolve = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#resolve = undefined;
    }
    this.#rung = false;
  }
}
