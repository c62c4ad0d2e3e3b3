/** Broken machines, made by editing the source of the real one. */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll } from 'vitest'

const CORE = join(import.meta.dirname, '../../src/core')

export interface Mutant {
  readonly name: string
  readonly file: 'health.ts' | 'health-news.ts' | 'concurrency.ts' | 'escalation.ts'
  /** Stands exactly once in the file. */
  readonly from: string
  readonly to: string
}

/**
 * Copies of core with one edit each, gone after the tests. Node loads them by itself, so that each copy is a module of
 * its own; `load` answers a function that imports one of its files.
 */
export function brokenCopies() {
  let folder = ''
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'yardmaster-mutants-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return {
    async load(mutant: Mutant, index: number) {
      const copy = join(folder, String(index))
      for (const file of readdirSync(CORE))
        if (!file.endsWith('.test.ts')) cpSync(join(CORE, file), join(copy, file))
      const text = readFileSync(join(copy, mutant.file), 'utf8')
      if (text.split(mutant.from).length !== 2)
        throw new Error(`${mutant.file} has not exactly one: ${mutant.from}`)
      writeFileSync(join(copy, mutant.file), text.replace(mutant.from, mutant.to))
      return (file: Mutant['file']) => import(/* @vite-ignore */ pathToFileURL(join(copy, file)).href)
    },
  }
}
