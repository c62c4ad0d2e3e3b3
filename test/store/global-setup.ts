/**
 * One PostgreSQL for the whole test run: the one of DATABASE_URL, else an embedded one in a folder of its own that writes
 * nothing through to disk. It holds a migrated template that every test database is a copy of.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startEmbedded } from '../../src/store/embedded.ts'
import { dropDatabase, makeTemplate } from './database.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Of a role that may create databases. */
    adminUrl: string
    template: string
  }
}

const QUIET = { info() {}, warn: console.warn, error: console.error }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = process.env.DATABASE_URL ? external(process.env.DATABASE_URL) : await embedded()
  const template = await makeTemplate(server.url)
  project.provide('adminUrl', server.url)
  project.provide('template', template)
  return async () => {
    await dropDatabase(server.url, template)
    await server.stop()
  }
}

function external(url: string) {
  return { url, stop: async () => {} }
}

async function embedded() {
  const dataDir = await mkdtemp(join(tmpdir(), 'yardmaster-test-'))
  const server = await startEmbedded({ dataDir, log: QUIET, durable: false })
  const stop = async () => {
    await server.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
  return { url: server.url, stop }
}
