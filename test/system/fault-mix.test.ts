import { describe, expect, it } from 'vitest'
import { runMix } from '../../bench/safety/yard.ts'

describe('a yard under fault', () => {
  // Seed 2 once left an image whose owner lived and had lost it, when PostgreSQL was killed between its grant and its call.
  it.each([2])(
    'UNK-1 to UNK-10, RTY-7, ORD-13, HLT-18, WAKE-2: gateways and PostgreSQL killed in the middle of it: nothing doubled, lost or leaked, and four of five succeed (seed %d)',
    { timeout: 600_000 },
    async (seed) => {
      const report = await runMix({
        tasks: 200,
        seed,
        kills: 3,
        databaseKills: 1,
        processes: 3,
        patience: 150,
      })
      // Also a kill that could not be confirmed where it was to be, and a share below 80 %, are findings.
      expect(report.findings).toEqual([])
      expect(report).toMatchObject({
        asked: 200,
        duplicateJobs: 0,
        lostTasks: 0,
        leakedLeases: 0,
        overAdmissions: 0,
        replayDifferences: 0,
        leakedSecrets: 0,
        killed: { submission: 2, settlement: 1, database: 1, pauses: 1 },
      })
      expect(report.succeededShare, JSON.stringify(report.ends)).toBeGreaterThanOrEqual(0.8)
      expect(report.videosLookedAt).toBeGreaterThan(150)
      expect(Object.values(report.faultsPlayed).reduce((sum, n) => sum + n, 0)).toBeGreaterThan(20)
    },
  )
})
