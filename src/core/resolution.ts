/**
 * What the jobs of an account prove about a submission whose fate is unknown (UNK-4, UNK-6, UNK-9). Finding a job that
 * can only be ours proves acceptance. Finding none proves nothing, unless the operator has declared that it does.
 *
 * Invariant: no job is taken for an attempt while another attempt has it, or could have made it, or while somebody else
 * could have. Taking a stranger's job would give one customer another's film.
 */

/** A job that the account says it has. What the protocol does not say is null: it speaks neither for nor against. */
export interface FoundJob {
  readonly providerTaskId: string
  /** Unix time in ms by the provider's clock. */
  readonly createdAtMs: number | null
  /** The ID that the client gave it. */
  readonly clientId: string | null
  readonly upstreamModel: string | null
  readonly durationSeconds: number | null
  readonly resolution: string | null
  readonly aspectRatio: string | null
  readonly prompt: string | null
}

/** An attempt that may have made a job. */
export interface Suspect {
  readonly attemptId: string
  readonly upstreamModel: string
  /** Unix time in ms by our clock, between which its job may have been made. */
  readonly from: number
  readonly until: number
  readonly durationSeconds: number
  readonly resolution: string
  readonly aspectRatio: string
  readonly prompt: string
}

/** What is known of the account's jobs, read after they were listed. */
export interface Known {
  /** Task IDs that attempts of the channel have already. */
  readonly taken: ReadonlySet<string>
  /** Other attempts of the channel whose submission may have been accepted without our knowing the ID. */
  readonly rivals: readonly Suspect[]
  /** False: there are more of them than were read. */
  readonly allRivals: boolean
}

export type Resolver = 'callback' | 'client_id' | 'time'

export type Finding =
  | { readonly kind: 'accepted'; readonly providerTaskId: string; readonly by: Resolver }
  | { readonly kind: 'not_accepted'; readonly by: Resolver }
  /** Nothing is proved; `why` is for the operator's desk. */
  | { readonly kind: 'open'; readonly why: string }

/** Our clock against the provider's. */
const CLOCK_SKEW_MS = 60_000

/** A callback named this job in an address that only our submission carried; the account has it, and it is as ordered. */
export function byHint(suspect: Suspect, job: FoundJob | undefined, known: Known): Finding {
  if (job === undefined)
    return { kind: 'open', why: 'the account has no job by the ID that a callback named' }
  if (known.taken.has(job.providerTaskId))
    return { kind: 'open', why: `job ${job.providerTaskId} of the callback belongs to another attempt` }
  if (!fits(suspect, job))
    return { kind: 'open', why: `job ${job.providerTaskId} of the callback is not what was ordered` }
  return { kind: 'accepted', providerTaskId: job.providerTaskId, by: 'callback' }
}

/**
 * `absenceProves`: that the account has nothing under the client's ID is proof, by the operator's own declaration and
 * because enough time has passed.
 */
export function byClientId(
  suspect: Suspect,
  listed: { readonly jobs: readonly FoundJob[]; readonly complete: boolean },
  known: Known & { readonly absenceProves: boolean },
): Finding {
  const ours = listed.jobs.filter((job) => job.clientId === suspect.attemptId)
  const [job] = ours
  if (job === undefined) return nothingUnderOurId(listed.complete && known.absenceProves)
  if (ours.length > 1)
    return { kind: 'open', why: `the account has ${ours.length} jobs with this attempt’s ID` }
  if (known.taken.has(job.providerTaskId))
    return {
      kind: 'open',
      why: `job ${job.providerTaskId} with this attempt’s ID belongs to another attempt`,
    }
  return { kind: 'accepted', providerTaskId: job.providerTaskId, by: 'client_id' }
}

function nothingUnderOurId(proves: boolean): Finding {
  return proves
    ? { kind: 'not_accepted', by: 'client_id' }
    : { kind: 'open', why: 'the account has no job with this attempt’s ID, which proves nothing' }
}

/**
 * Only when exactly one job fits, and no other attempt could have made it. Where the list does not tell whose a job is
 * (no prompt), the account must be declared to be used by nobody else: `soleUser`.
 */
export function byTime(
  suspect: Suspect,
  listed: { readonly jobs: readonly FoundJob[]; readonly complete: boolean },
  known: Known & { readonly soleUser: boolean },
): Finding {
  if (!known.allRivals) return { kind: 'open', why: 'too many other submissions of that time are unknown' }
  if (!listed.complete) return { kind: 'open', why: 'the account’s list was too long to be read to its end' }
  const fitting = listed.jobs.filter(
    (job) => isTold(job, suspect) && fits(suspect, job) && !known.taken.has(job.providerTaskId),
  )
  const [job] = fitting
  if (job === undefined) return { kind: 'open', why: 'no job of that time fits, which proves nothing' }
  if (fitting.length > 1) return { kind: 'open', why: `${fitting.length} jobs of that time fit` }
  const rival = known.rivals.find((other) => fits(other, job))
  if (rival) return { kind: 'open', why: `job ${job.providerTaskId} fits attempt ${rival.attemptId} as well` }
  if (job.clientId === null && job.prompt === null && !known.soleUser)
    return { kind: 'open', why: `job ${job.providerTaskId} fits, but the list does not tell whose it is` }
  return { kind: 'accepted', providerTaskId: job.providerTaskId, by: 'time' }
}

/** A job whose time, model and duration nobody tells is no job found by time and parameters. */
function isTold(job: FoundJob, suspect: Suspect): boolean {
  if (job.clientId === suspect.attemptId) return true
  return job.createdAtMs !== null && job.upstreamModel !== null && job.durationSeconds !== null
}

/** Nothing that is told speaks against it. A job with the ID of another client fits nobody but that one. */
export function fits(suspect: Suspect, job: FoundJob): boolean {
  return (
    agrees(job.clientId, suspect.attemptId) &&
    agrees(job.upstreamModel, suspect.upstreamModel) &&
    agrees(job.durationSeconds, suspect.durationSeconds) &&
    agrees(job.resolution, suspect.resolution) &&
    (LEFT_TO_THE_PROVIDER.has(suspect.aspectRatio) || agrees(job.aspectRatio, suspect.aspectRatio)) &&
    agrees(job.prompt, suspect.prompt) &&
    (job.createdAtMs === null || isWithin(job.createdAtMs, suspect))
  )
}

const LEFT_TO_THE_PROVIDER: ReadonlySet<string> = new Set(['adaptive', 'auto'])

function agrees<T>(told: T | null, expected: T): boolean {
  return told === null || told === expected
}

function isWithin(at: number, { from, until }: Suspect): boolean {
  return at >= from - CLOCK_SKEW_MS && at <= until + CLOCK_SKEW_MS
}
