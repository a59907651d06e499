/** Runs one task at a time; while one runs, at most one more waits, and later wishes join the waiting one. */
export class RestartQueue {
  private tail: Promise<void> = Promise.resolve();
  private waiting: Promise<void> | undefined;

  constructor(
    private readonly task: () => Promise<void>,
    private readonly settleMs = 50,
  ) {}

  /** Ask for a run; resolves when a run that began after this call has ended. Never rejects. */
  request(): Promise<void> {
    if (this.waiting) return this.waiting;
    const run = this.tail.then(async () => {
      // several events of one cause (trust granted: settings come into force) arrive within moments
      await new Promise((resolve) => setTimeout(resolve, this.settleMs));
      this.waiting = undefined;
      await this.task();
    });
    this.waiting = run.catch(() => undefined);
    this.tail = this.waiting;
    return this.waiting;
  }
}
