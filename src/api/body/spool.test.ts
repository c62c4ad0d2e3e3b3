import { mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Spool, sweepSpool } from './spool.ts'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'yardmaster-spool-'))
})
afterEach(() => rm(directory, { recursive: true }))

it('CUS-5: an upload is hashed on its way, and gone with its request, finished or not', async () => {
  const spool = new Spool(directory)
  const writer = await spool.create()
  await writer.write(Buffer.from('ab'))
  await writer.write(Buffer.from('c'))
  const file = await writer.finish()
  expect(file).toMatchObject({
    bytes: 3,
    digest: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    head: Uint8Array.from([97, 98, 99]),
  })
  expect(await readFile(file.path, 'utf8')).toBe('abc')
  await (await spool.create()).write(Buffer.alloc(10))
  expect(await readdir(directory)).toHaveLength(2)
  await spool.remove()
  expect(await readdir(directory)).toEqual([])
})

it('CUS-5: what a killed process left is swept once it is old, what is being written is not', async () => {
  await writeFile(join(directory, 'old'), '')
  await writeFile(join(directory, 'new'), '')
  await utimes(join(directory, 'old'), 0, 0)
  expect(await sweepSpool(directory, Date.now())).toBe(1)
  expect(await readdir(directory)).toEqual(['new'])
})
