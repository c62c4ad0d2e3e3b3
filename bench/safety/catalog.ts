/** The catalog of the fault mix: faulty accounts of three protocols, two channels that lead nowhere, and one that is sound. */

export interface CatalogPlaces {
  readonly simulator: string
  /** A port on which whoever asks for TLS gets no TLS. */
  readonly brokenTlsPort: number
}

const VIDEOS = [
  ['sound-video', 'sound', 'doubao-seedance-2-0-260128', 40, '*video', 1.2],
  ['north-video', 'north', 'doubao-seedance-2-0-260128', 25, '*video', 0.9],
  ['north-second', 'north', 'ep-20261103091500-second', 10, '*video', 0.95],
  ['kling-video', 'kling', 'kling-3.0', 30, '*kling', 0.8],
  ['relay-video', 'relay', 'wan-video', 20, '*video', 1.1],
  ['no-tls-video', 'no-tls', 'doubao-seedance-2-0-260128', 4, '*video', 0.7],
  ['no-name-video', 'no-name', 'doubao-seedance-2-0-260128', 4, '*video', 0.7],
] as const

/**
 * Time that no pace of the machine uses up, nor a database that is down for half a minute; and little time, for jobs that
 * never end (faults.ts), whose leases are held for three times as long.
 */
const MODELS = [
  ['mix-video', 'mix', 120],
  ['mix-short', 'short', 10],
] as const

/** `https://` to something that speaks no TLS, and a name that no resolver takes, so that nothing leaves the machine. */
export function mixCatalog({ simulator, brokenTlsPort }: CatalogPlaces): string {
  return `
currency: CNY
anchors:
  - &video
    - { duration_seconds: 4-15, resolutions: [480p, 720p, 1080p], aspect_ratios: ["16:9", "9:16", "1:1"], generate_audio: true }
  - &kling
    - { duration_seconds: 3-15, resolutions: [720p, 1080p], aspect_ratios: ["16:9", "9:16", "1:1"], generate_audio: true }
  - &image
    - { sizes: [1024x1024, 2048x2048], count: 1-4 }
  - &tried { by: bench, at: 2026-11-20, evidence: "the simulator" }
channels:
  sound: { provider: ark, base_url: "${simulator}/ark/sound/api/v3", credential: env:SIMULATOR_KEY, concurrency: 60, options: { sole_user: true } }
  north: { provider: ark, base_url: "${simulator}/ark/north/api/v3", credential: env:SIMULATOR_KEY, concurrency: 40, options: { sole_user: true } }
  kling: { provider: kling, base_url: "${simulator}/kling/main", credential: env:SIMULATOR_KEY, concurrency: 30 }
  relay: { provider: openai, base_url: "${simulator}/openai/relay/v1", credential: env:SIMULATOR_KEY, concurrency: 30, options: { extensions: true, image_response_format: b64_json } }
  no-tls: { provider: ark, base_url: "https://127.0.0.1:${brokenTlsPort}/api/v3", credential: env:SIMULATOR_KEY, concurrency: 4 }
  no-name: { provider: ark, base_url: "http://${'n'.repeat(64)}.invalid/api/v3", credential: env:SIMULATOR_KEY, concurrency: 4 }
supplies:
${VIDEOS.map(
  ([id, channel, model, concurrency, modes, price]) =>
    `  ${id}: { channel: ${channel}, upstream_model: ${model}, media: video, real_person: allowed, concurrency: ${concurrency}, expected_seconds: 1, capability: { billing_mode: per_second, modes: ${modes} }, prices: { rows: [{ price: ${price} }] } }`,
).join('\n')}
  sound-image: { channel: sound, upstream_model: doubao-seedream-4-0-250828, media: image, concurrency: 20, expected_seconds: 1, capability: { modes: *image }, prices: { rows: [{ price: 0.2 }] } }
  relay-image: { channel: relay, upstream_model: gpt-image-2, media: image, concurrency: 10, expected_seconds: 1, capability: { modes: *image }, prices: { rows: [{ price: 0.1 }] } }
policies:
  video: { retry_window_seconds: 1200 }
  image: { task_cost_limit: 4 }
models:
${MODELS.map(
  ([model, prefix, seconds]) => `  ${model}:
    media: video
    limits: *video
    defaults: { seconds: 5, resolution: 720p, aspect_ratio: "16:9", generate_audio: false }
    max_run_seconds: ${seconds}
    policy: video
    bindings:
${VIDEOS.map(([id]) => `      ${prefix}-${id}: { supply: ${id}, verified: *tried }`).join('\n')}`,
).join('\n')}
  mix-image:
    media: image
    limits: *image
    defaults: { size: 1024x1024, n: 1 }
    image_timeout_seconds: 20
    policy: image
    bindings:
      mix-sound-image: { supply: sound-image, verified: *tried }
      mix-relay-image: { supply: relay-image, verified: *tried }
`
}
