/**
 * From a stored request to the order that goes out: facts and inputs as the degradation transform leaves them (DEG-2,
 * DEG-6), each input opened from the asset store or passed on as the customer's URL.
 */
import { countOf } from '../core/capability.ts'
import { type FactsJson, factsFromJson } from '../core/frozen.ts'
import type { InputCounts } from '../core/request.ts'
import type { ImageOrder, OutboundInput, VideoOrder } from '../providers/adapter.ts'
import type { AssetStore } from '../store/assets.ts'
import type { DegradedJson } from '../store/attempts.ts'
import type { InputReference, RequestContent } from './service.ts'

export interface StoredRequest {
  readonly facts: FactsJson
  readonly content: RequestContent
  readonly degraded: DegradedJson | null
}

/** Throws where a stored asset is missing or damaged: then nothing may be sent. */
export async function orderOf(stored: StoredRequest, assets: AssetStore): Promise<VideoOrder | ImageOrder> {
  const facts = factsFromJson(stored.degraded?.sent ?? stored.facts)
  const inputs = await openInputs(stored, facts.inputs, assets)
  const { prompt } = stored.content
  if (facts.media === 'image')
    return { media: 'image', prompt, size: facts.size, quality: facts.quality, count: facts.count, inputs }
  return {
    media: 'video',
    prompt,
    durationSeconds: facts.durationSeconds,
    resolution: facts.resolution,
    aspectRatio: facts.aspectRatio,
    generateAudio: facts.generateAudio,
    inputs,
  }
}

/** Of each kind as many as the facts say, in the customer's order. */
async function openInputs(
  stored: StoredRequest,
  counts: InputCounts,
  assets: AssetStore,
): Promise<Record<string, OutboundInput[]>> {
  const opened: Record<string, OutboundInput[]> = {}
  for (const [kind, references] of Object.entries(stored.content.inputs)) {
    const sent = references.slice(0, countOf(counts, kind))
    if (sent.length > 0)
      opened[kind] = await Promise.all(sent.map((reference) => openInput(reference, assets)))
  }
  return opened
}

async function openInput(reference: InputReference, assets: AssetStore): Promise<OutboundInput> {
  if ('url' in reference) return { kind: 'url', url: reference.url }
  const bytes = await readAsset(assets, reference.asset)
  return { kind: 'bytes', bytes, contentType: reference.contentType, filename: reference.filename }
}

async function readAsset(assets: AssetStore, digest: string): Promise<Uint8Array> {
  const opened = await assets.open(digest)
  if (!opened) throw new Error(`the asset ${digest} has expired`)
  const chunks: Buffer[] = []
  for await (const chunk of opened.stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}
