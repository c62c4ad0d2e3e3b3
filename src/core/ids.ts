/** Task IDs as people meet them: `video_` or `image_` and 32 hexadecimal digits, or the UUID itself. */

const HEX =
  /^(?:(?:video|image)_)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$/

/** The UUID, or null where the text is no task's ID. */
export function taskIdOf(text: string): string | null {
  const parts = HEX.exec(text.trim().toLowerCase())
  return parts === null ? null : parts.slice(1).join('-')
}

export function publicTaskId(kind: 'video' | 'image', taskId: string): string {
  return `${kind}_${taskId.replaceAll('-', '')}`
}
