/** What runtime tells its operators as it goes. Structured, and never with a prompt, a URL or a credential. */
export interface Journal {
  note(event: string, details?: Readonly<Record<string, unknown>>): void
  /** Something of ours went wrong; work goes on. */
  fault(event: string, error: unknown, details?: Readonly<Record<string, unknown>>): void
}
