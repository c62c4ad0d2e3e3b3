/**
 * The port: what runtime asks of a provider and what it may be told. An adapter is thin: it translates, and never
 * retries, waits, or decides. All HTTP goes through call.ts.
 */
import type { Fault } from '../core/outcome.ts'
import type { FoundJob } from '../core/resolution.ts'

export type { FoundJob }

/** The account that is called. The credential lives in memory only for the length of a call. */
export interface Account {
  readonly channelId: string
  readonly baseUrl: string
  readonly credential: string
  /** The channel's `options` from the catalog, the adapter's own business. */
  readonly options: Readonly<Record<string, unknown>>
}

/** One input of a request, opened for sending: a public URL as the customer gave it, or bytes from the asset store. */
export type OutboundInput =
  | { readonly kind: 'url'; readonly url: string }
  | {
      readonly kind: 'bytes'
      readonly bytes: Uint8Array
      readonly contentType: string
      readonly filename: string
    }

export interface VideoOrder {
  readonly media: 'video'
  readonly prompt: string
  readonly durationSeconds: number
  readonly resolution: string
  readonly aspectRatio: string
  readonly generateAudio: boolean
  /** By kind (`reference_images`, `first_frame` …), in the customer's order, after the degradation transform. */
  readonly inputs: Readonly<Record<string, readonly OutboundInput[]>>
}

export interface ImageOrder {
  readonly media: 'image'
  readonly prompt: string
  readonly size: string
  readonly quality: string | null
  readonly count: number
  readonly inputs: Readonly<Record<string, readonly OutboundInput[]>>
}

export interface Submission<Order> {
  readonly attemptId: string
  readonly upstreamModel: string
  readonly order: Order
  /** Where the provider may report progress; null: it is not told. */
  readonly callbackUrl: string | null
  /** Whole call, in ms from now. */
  readonly timeoutMs: number
  /**
   * Called at the last moment before the first byte may leave; answering false stops the call there, which is then
   * `stopped_before_sending`. Synchronous, so that nothing happens in between.
   */
  readonly mayStillSend: () => boolean
}

export type SubmitReply =
  | { readonly kind: 'accepted'; readonly providerTaskId: string; readonly requestId: string | null }
  | { readonly kind: 'fault'; readonly fault: Fault; readonly requestId: string | null }
  /** Our own deadline, or `mayStillSend`, ended it before its first byte: it was no attempt (UNK-7). */
  | { readonly kind: 'stopped_before_sending' }

export interface GeneratedImage {
  readonly bytes: Uint8Array
  readonly contentType: string
}

/** One place in a batch: what came of it, by the order of the request. */
export type ImageItem =
  | { readonly ok: true; readonly image: GeneratedImage }
  /** `billed`: made and paid for, though it could not be had. Such a fault is never retryable. */
  | { readonly ok: false; readonly fault: Fault; readonly billed?: boolean }

export type ImageReply =
  | {
      readonly kind: 'finished'
      readonly items: readonly ImageItem[]
      readonly requestId: string | null
      readonly reported: ReportedUsage | null
    }
  | { readonly kind: 'fault'; readonly fault: Fault; readonly requestId: string | null }
  | { readonly kind: 'stopped_before_sending' }

/** What the provider says it used; kept beside our own figure (COST-7). */
export type ReportedUsage = Readonly<Record<string, string | number | boolean | null>>

export interface FinishedVideo {
  /** Where the adapter's `download` finds it; may be a signed URL: never logged. */
  readonly location: string
  readonly reported: ReportedUsage | null
}

export type PollReply =
  | { readonly kind: 'running'; readonly phase: 'queued' | 'running'; readonly progress: number | null }
  /** A status that the adapter does not know: keep polling, and count it. */
  | { readonly kind: 'unknown_status'; readonly status: string }
  | { readonly kind: 'succeeded'; readonly video: FinishedVideo }
  /** The job itself ended badly; `billed` is what the provider says of it, null where it says nothing. */
  | { readonly kind: 'failed'; readonly fault: Fault; readonly billed: boolean | null }
  /** The job was cancelled at the provider. */
  | { readonly kind: 'cancelled' }
  /** The provider does not know the job: right after creation, or for good after three in a row. */
  | { readonly kind: 'not_found' }
  /** No answer about the job: authentication refused, no connection, 5xx, nonsense. Changes nothing for the job. */
  | { readonly kind: 'no_answer'; readonly fault: Fault }

export type CancelReply =
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'refused'; readonly why: string }
  | { readonly kind: 'no_answer'; readonly fault: Fault }

export type DownloadReply =
  | {
      readonly kind: 'body'
      readonly contentType: string
      readonly contentLength: number | null
      readonly stream: AsyncIterable<Uint8Array>
    }
  | { readonly kind: 'no_answer'; readonly fault: Fault }

export interface CallLimits {
  /** Whole call, in ms from now; of a download, until its last byte. */
  readonly timeoutMs: number
  /** Of a download: larger results break off. 2 GiB where it is absent. */
  readonly maxBytes?: number
}

export interface PingReply {
  readonly ok: boolean
  readonly fault: Fault | null
}

/** A submission whose fate is unknown, as its account may be asked about it (UNK-9). */
export interface LostSubmission {
  /** Sent to the provider as the client's ID, where the protocol has one. */
  readonly attemptId: string
  /** Unix time in ms by our clock, between which the provider may have made its job. */
  readonly from: number
  readonly until: number
}

export type LookupReply =
  /** `complete`: nothing that was asked for was left off. */
  | { readonly kind: 'jobs'; readonly jobs: readonly FoundJob[]; readonly complete: boolean }
  | { readonly kind: 'no_answer'; readonly fault: Fault }

/** Free queries that find a job again. They say what is there; what that proves is judged in core/resolution. */
export interface Lookup {
  /** By the ID that we gave it, which is unique within the account. */
  readonly byClientId?: (account: Account, lost: LostSubmission, limits: CallLimits) => Promise<LookupReply>
  /** All jobs of a span of time. */
  readonly byTime?: (account: Account, lost: LostSubmission, limits: CallLimits) => Promise<LookupReply>
  /** One by the provider's own ID: to confirm a hint, or what an operator says. No job: the account has none of that ID. */
  readonly byTaskId?: (account: Account, providerTaskId: string, limits: CallLimits) => Promise<LookupReply>
}

export interface ProviderAdapter {
  /** As in the catalog's `provider`: `ark`, `openai`. */
  readonly name: string
  /** What is wrong with a channel's `options`, each with its path; empty where nothing is. */
  readonly optionProblems?: (options: unknown) => readonly string[]
  readonly submitVideo?: (account: Account, submission: Submission<VideoOrder>) => Promise<SubmitReply>
  readonly generateImage?: (account: Account, submission: Submission<ImageOrder>) => Promise<ImageReply>
  readonly poll?: (account: Account, providerTaskId: string, limits: CallLimits) => Promise<PollReply>
  /** Whether a cancellation of an accepted job can work at all is said by its presence. */
  readonly cancel?: (account: Account, providerTaskId: string, limits: CallLimits) => Promise<CancelReply>
  readonly download?: (account: Account, location: string, limits: CallLimits) => Promise<DownloadReply>
  readonly lookup?: Lookup
  /** The task ID that the body of a callback names; null where it names none. Nothing else of it is read (UNK-9). */
  readonly taskIdInCallback?: (body: Uint8Array) => string | null
  /** A free call that shows whether the account answers (HLT-14: comes before the probe of what does not heal by itself). */
  readonly ping?: (account: Account, limits: CallLimits) => Promise<PingReply>
}
