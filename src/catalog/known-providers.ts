/** The protocols that a channel can name, and what each can make. A new adapter adds its line here. */
import type { Media } from '../core/request.ts'

export const KNOWN_PROVIDERS: Readonly<Record<string, readonly Media[]>> = {
  ark: ['video', 'image'],
  kling: ['video'],
  openai: ['video', 'image'],
}
