/** A task's ID as customers see it: `video_` or `image_` and the UUID's 32 hexadecimal digits. */

export type TaskKind = 'video' | 'image'

export function publicId(kind: TaskKind, taskId: string): string {
  return `${kind}_${taskId.replaceAll('-', '')}`
}

/** The UUID, or null for anything that is no such ID. */
export function taskIdOf(kind: TaskKind, id: string): string | null {
  const hex = new RegExp(`^${kind}_([0-9a-f]{32})$`).exec(id)?.[1]
  return hex === undefined ? null : uuidOfHex(hex)
}

export function uuidOfHex(hex: string): string {
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
