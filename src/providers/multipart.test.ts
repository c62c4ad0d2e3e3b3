import { describe, expect, it } from 'vitest'
import { buildForm } from './multipart.ts'

describe('a form', () => {
  it('is what a standard reader reads back, byte for byte', async () => {
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, index) => index % 256))
    const form = buildForm([
      { name: 'prompt', value: 'zwei Zeilen\r\n--ym- und “Zeichen”' },
      { name: 'tags[]', value: 'a' },
      { name: 'tags[]', value: 'b' },
      { name: 'input_reference', filename: 'a "quoted"\n name.png', contentType: 'image/png', bytes },
    ])
    const read = await new Response(new Uint8Array(form.body), {
      headers: { 'content-type': form.contentType },
    }).formData()
    expect(read.get('prompt')).toBe('zwei Zeilen\r\n--ym- und “Zeichen”')
    expect(read.getAll('tags[]')).toEqual(['a', 'b'])
    const file = read.get('input_reference')
    if (!(file instanceof File)) throw new Error('the file is missing')
    expect(Buffer.from(await file.arrayBuffer()).equals(bytes)).toBe(true)
    expect([file.type, file.name]).toEqual(['image/png', 'a "quoted"\n name.png'])
  })
})
