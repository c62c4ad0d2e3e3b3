/** The demo catalog with a second video model, served by the relay alone. */
export function withSecondModel(text: string): string {
  const model = `  another-model:
    media: video
    profile: 933
    limits: *seedance-933
    defaults: { seconds: 5, resolution: 720p, aspect_ratio: "16:9", generate_audio: false }
    policy: video
    bindings:
      another-relay: { supply: seedance-relay, verified: *tried }

`
  return text.replace(/^ {2}seedream-4\.0:\n/m, (found) => `${model}${found}`)
}
