/** Every bench, small: that it runs to its end and has something to say. What it measures then says nothing. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FIGURES = [
  'full lifecycles',
  'full lifecycles, by pgbench’s pace of the frozen statements',
  'queue only',
  'decisions, 10 candidates',
  'images, 32 connections',
  'full lifecycles, 500 tasks of another, saturated model waiting',
  'from release to submission, hints on: p99',
  'full lifecycles while a snapshot is held, at the end of a minute',
  'full lifecycles, 4 processes',
  'memory of a gateway, 500 tasks queued, 100 running',
  '100 running jobs: looks',
  '`npm start` to ready, existing data directory',
  'storage per finished task',
]

it('each figure of the bench is measured, and none fails', { timeout: 600_000 }, async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['bench/run.ts', '--short'], {
    cwd: ROOT,
    maxBuffer: 2 ** 24,
  })
  expect(stdout).not.toContain('**failed**')
  for (const figure of FIGURES) expect(stdout).toContain(`| ${figure} |`)
  expect(stdout).toMatch(/\| the soak, \d+ arriving a second/)
})
