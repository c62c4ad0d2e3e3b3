/**
 * What the rest of the program asks of runtime: admit a request, carry out an image, cancel a task. Answers are values;
 * only a fault of our own is thrown.
 */

import type { RequestFacts } from '../core/request.ts'
import type { RejectionCode, WaitReason } from '../core/verdict.ts'

/** An input of a request as it is stored: the customer's URL, or a file in the asset store by its SHA-256. */
export type InputReference =
  | { readonly url: string }
  | { readonly asset: string; readonly contentType: string; readonly filename: string }

/** What was asked for, apart from the facts that a decision reads. Stored as the task's content. */
export interface RequestContent {
  readonly prompt: string
  readonly inputs: Readonly<Record<string, readonly InputReference[]>>
  readonly metadata: Readonly<Record<string, string>>
  /** Fields as the customer sent them, to be echoed: `size`, `seconds`, `response_format` … */
  readonly echo: Readonly<Record<string, string | number | boolean | null>>
}

export interface Caller {
  readonly customerId: string
  readonly keyId: string
  readonly groups: readonly string[]
}

export interface IncomingRequest {
  readonly caller: Caller
  readonly modelId: string
  readonly facts: RequestFacts
  readonly content: RequestContent
  readonly requestId: string
  /** Idempotency-Key, with the digest of parsed fields and files. */
  readonly idempotency: {
    readonly endpoint: string
    readonly key: string
    readonly payloadDigest: Uint8Array
  } | null
  /** The same digest always; `count` is X-Stainless-Retry-Count, 0 where absent (CUS-4). */
  readonly repeat: { readonly count: number; readonly fingerprint: Uint8Array }
}

/** The request was not taken: by the door's verdict, by its Idempotency-Key, or because the model has never been published. */
export type Refusal =
  | {
      readonly kind: 'rejected'
      readonly taskId: string | null
      readonly code: RejectionCode
      readonly param: string | null
    }
  /** Same Idempotency-Key, other payload: 422. */
  | { readonly kind: 'key_reused' }
  /** Same Idempotency-Key, first request still running: 409. */
  | { readonly kind: 'key_in_flight'; readonly taskId: string }

export type VideoAdmission =
  | { readonly kind: 'admitted'; readonly taskId: string }
  /** An earlier request is answered again. */
  | { readonly kind: 'repeated'; readonly taskId: string }
  | Refusal

export type ImageAnswer =
  /** The task has ended well, or in part; its outputs are in the store. `repeated`: by an earlier request. */
  | { readonly kind: 'finished'; readonly taskId: string; readonly repeated: boolean }
  /** No capacity, open circuits …: 429 or 503 with Retry-After; nothing was submitted. */
  | {
      readonly kind: 'wait'
      readonly taskId: string
      readonly reason: WaitReason
      readonly retryAfterSeconds: number
    }
  /** The task ended badly; `code` is Yardmaster's. After a possible submission the customer is told not to retry. */
  | { readonly kind: 'failed'; readonly taskId: string; readonly code: string; readonly submitted: boolean }
  | Refusal

export type CancelAnswer =
  | { readonly kind: 'cancelled' }
  | { readonly kind: 'already_ended'; readonly state: string }
  /** 409 with why: being submitted, outcome unknown, or the provider cannot cancel. */
  | {
      readonly kind: 'refused'
      readonly why: 'submitting' | 'uncertain' | 'provider_cannot' | 'provider_refused' | 'provider_silent'
    }
  | { readonly kind: 'not_found' }

export interface Dispatching {
  admitVideo(request: IncomingRequest): Promise<VideoAdmission>
  /** `started` is called before the provider may be: what is thrown until then left nothing submitted. */
  runImage(request: IncomingRequest, started?: () => void): Promise<ImageAnswer>
  cancelTask(taskId: string): Promise<CancelAnswer>
}
