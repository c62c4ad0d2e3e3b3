// The `content` of an Ark video request: which items, in which roles, how many, and in which of the three
// modes that exclude each other (first frame, first and last frame, references).

import { isRecord } from '../fields.ts'
import { type ArkProblem, invalid, missing } from './errors.ts'
import type { Family } from './families.ts'

type Kind = 'image' | 'video' | 'audio'
type Item = { kind: Kind; role: string; url: string }

const ROLES: Record<Kind, string[]> = {
  image: ['first_frame', 'last_frame', 'reference_image', 'mask'],
  video: ['reference_video'],
  audio: ['reference_audio'],
}
const URLS: Record<Kind, RegExp> = {
  image: /^(https?:\/\/|data:image\/[a-z+.-]+;base64,|asset:\/\/)./,
  video: /^(https?:\/\/|asset:\/\/)./,
  audio: /^(https?:\/\/|data:audio\/[a-z0-9+.-]+;base64,|asset:\/\/)./,
}

export type Content = { prompt: string; withVideo: boolean }

/** Reads `content`, or says what is wrong with it. */
export function readContent(value: unknown, family: Family): Content | ArkProblem {
  if (value === undefined) return missing('content')
  if (!Array.isArray(value) || value.length === 0) return invalid('content', 'expected a non-empty array')
  const prompts: string[] = []
  const items: Item[] = []
  let draft = false
  for (const [i, raw] of value.entries()) {
    const read = readItem(raw, `content[${i}]`)
    if ('status' in read) return read
    if ('prompt' in read) prompts.push(read.prompt)
    else if ('draft' in read) draft = true
    else items.push(read)
  }
  if (prompts.length === 0 && items.length === 0 && !draft) return missing('content.text')
  if (prompts.length > 1) return invalid('content', 'more than one text')
  const problem = countProblem(items, family) ?? modeProblem(items, family)
  if (problem !== undefined) return problem
  return { prompt: prompts[0] ?? '', withVideo: items.some((item) => item.kind === 'video') }
}

function readItem(raw: unknown, path: string): Item | { prompt: string } | { draft: true } | ArkProblem {
  if (!isRecord(raw)) return invalid(path, 'expected an object')
  switch (raw.type) {
    case 'text':
      if (typeof raw.text !== 'string' || raw.text.trim() === '')
        return invalid(`${path}.text`, 'expected a non-empty string')
      return { prompt: raw.text }
    case 'image_url':
      return readMedia(raw, 'image', path)
    case 'video_url':
      return readMedia(raw, 'video', path)
    case 'audio_url':
      return readMedia(raw, 'audio', path)
    case 'draft_task':
      return isRecord(raw.draft_task) ? { draft: true } : missing(`${path}.draft_task`)
    default:
      return invalid(`${path}.type`, 'expected text, image_url, video_url, audio_url or draft_task')
  }
}

function readMedia(raw: Record<string, unknown>, kind: Kind, path: string): Item | ArkProblem {
  const name = `${kind}_url`
  const holder = raw[name]
  const url = isRecord(holder) ? holder.url : undefined
  if (typeof url !== 'string') return missing(`${path}.${name}.url`)
  if (!URLS[kind].test(url))
    return invalid(`${path}.${name}.url`, 'expected an http(s), data or asset address')
  const role = raw.role ?? (kind === 'image' ? 'first_frame' : undefined)
  if (typeof role !== 'string' || !ROLES[kind].includes(role))
    return invalid(`${path}.role`, `expected ${ROLES[kind].join(', ')}`)
  return { kind, role, url }
}

function countProblem(items: Item[], family: Family): ArkProblem | undefined {
  const count = (role: string) => items.filter((item) => item.role === role).length
  const limits = [
    ['first_frame', 1],
    ['last_frame', 1],
    ['reference_image', family.images],
    ['reference_video', family.videos],
    ['reference_audio', family.audios],
  ] as const
  for (const [role, most] of limits) {
    if (count(role) > most)
      return invalid('content', `${count(role)} items with role ${role}, at most ${most}`)
  }
  const references = items.filter((item) => item.role.startsWith('reference_')).length
  if (references > family.total)
    return invalid('content', `${references} references, at most ${family.total}`)
  return undefined
}

function modeProblem(items: Item[], family: Family): ArkProblem | undefined {
  const has = (role: string) => items.some((item) => item.role === role)
  const frames = has('first_frame') || has('last_frame')
  const references = items.some((item) => item.role.startsWith('reference_'))
  if (frames && references)
    return invalid('content', 'first/last frame content cannot be mixed with reference media content')
  if (has('last_frame') && !has('first_frame')) return invalid('content', 'last_frame requires first_frame')
  const audioAlone = has('reference_audio') && !has('reference_image') && !has('reference_video')
  if (audioAlone && !family.audioAlone)
    return invalid('content', 'reference_audio requires a reference image or a reference video')
  return undefined
}
