/** What an uploaded file is: by its first bytes, and by what its sender says where these do not tell. */

export type MediaKind = 'image' | 'video' | 'audio'

const startsWith = (bytes: Uint8Array, text: string, at = 0) =>
  Buffer.from(bytes).toString('latin1', at, at + text.length) === text

type Signature = readonly [contentType: string, is: (head: Uint8Array) => boolean]

const SIGNATURES: readonly Signature[] = [
  ['image/png', (head) => startsWith(head, '\x89PNG\r\n\x1a\n')],
  ['image/jpeg', (head) => startsWith(head, '\xff\xd8\xff')],
  ['image/gif', (head) => startsWith(head, 'GIF8')],
  ['image/webp', (head) => startsWith(head, 'RIFF') && startsWith(head, 'WEBP', 8)],
  ['image/bmp', (head) => startsWith(head, 'BM')],
  ['image/tiff', (head) => startsWith(head, 'II*\0') || startsWith(head, 'MM\0*')],
  ['image/heic', (head) => startsWith(head, 'ftyphei', 4) || startsWith(head, 'ftypmif1', 4)],
  ['audio/wav', (head) => startsWith(head, 'RIFF') && startsWith(head, 'WAVE', 8)],
  [
    'audio/mpeg',
    (head) => startsWith(head, 'ID3') || startsWith(head, '\xff\xfb') || startsWith(head, '\xff\xf3'),
  ],
  ['audio/ogg', (head) => startsWith(head, 'OggS')],
  ['audio/flac', (head) => startsWith(head, 'fLaC')],
  ['audio/mp4', (head) => startsWith(head, 'ftypM4A', 4)],
  ['video/quicktime', (head) => startsWith(head, 'ftypqt', 4)],
  ['video/mp4', (head) => startsWith(head, 'ftyp', 4)],
  ['video/webm', (head) => startsWith(head, '\x1a\x45\xdf\xa3')],
]

const DECLARED = /^(image|video|audio)\/[a-z0-9][a-z0-9.+-]{0,60}$/

/** The content type, or null where the file is not of that kind for all that can be seen. */
export function mediaTypeOf(head: Uint8Array, declared: string | null, kind: MediaKind): string | null {
  const seen = SIGNATURES.find(([, is]) => is(head))?.[0]
  const type = seen ?? (declared !== null && DECLARED.test(declared) ? declared : null)
  return type?.startsWith(`${kind}/`) ? type : null
}
