/** The part of a customer's request that a decision may read: no prompt, no URL, no name (IN-1, ORD-17). */

export type Media = 'video' | 'image'
export type BillingMode = 'per_second' | 'per_request' | 'per_image'
export type DegradationMode = 'strict' | 'best_effort'

/** How many inputs of each kind the request has; a kind that is absent is 0. */
export type InputCounts = Readonly<Record<string, number>>

export interface VideoFacts {
  readonly media: 'video'
  /** null: the request names none, which means per_second (STR-5). */
  readonly billingMode: BillingMode | null
  readonly degradation: DegradationMode | null
  readonly realPerson: boolean
  readonly durationSeconds: number
  readonly resolution: string
  readonly aspectRatio: string
  readonly generateAudio: boolean
  readonly inputs: InputCounts
}

export interface ImageFacts {
  readonly media: 'image'
  readonly billingMode: BillingMode | null
  readonly degradation: DegradationMode | null
  readonly size: string
  readonly quality: string | null
  readonly count: number
  readonly inputs: InputCounts
}

export type RequestFacts = VideoFacts | ImageFacts
