/** How long this installation waits, for what; a test, or a hurried operator, may choose otherwise. */

export interface Timing {
  /** A create, connecting included. */
  readonly submitTimeoutMs: number
  /** UNK-5: how long an unknown submission is asked about before it is given up. */
  readonly videoDoubtSeconds: number
  readonly imageDoubtSeconds: number
  /** Between two looks for a lost submission, at first; each look doubles it, up to the last. */
  readonly lookupMs: number
  readonly lookupMaxMs: number
  /** A process's claims are good for so long without a heartbeat. */
  readonly claimSeconds: number
}

export const TIMING_DEFAULTS: Timing = {
  submitTimeoutMs: 60_000,
  videoDoubtSeconds: 3600,
  imageDoubtSeconds: 300,
  lookupMs: 10_000,
  lookupMaxMs: 120_000,
  claimSeconds: 15,
}
