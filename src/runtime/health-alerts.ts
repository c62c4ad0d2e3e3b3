/** What a step of health must tell operators: a circuit that opened, and its alert resolved once the level has recovered. */
import type { Step } from '../core/health.ts'
import { type Alert, raiseAlerts, resolveAlerts } from '../store/alerts.ts'
import type { Sql } from '../store/database.ts'

export interface LevelStep {
  readonly level: 'channel' | 'supply'
  readonly id: string
  readonly step: Step
}

export async function tellHealth(tx: Sql, steps: readonly LevelStep[]): Promise<void> {
  const over = steps
    .filter(({ step }) => step.event?.kind === 'recovered')
    .map(({ level, id }) => fingerprintOf(level, id))
  await Promise.all([raiseAlerts(tx, steps.flatMap(opened)), resolveAlerts(tx, over)])
}

function opened({ level, id, step }: LevelStep): Alert[] {
  const { event } = step
  if (!event || !['opened', 'reopened', 'ping_failed'].includes(event.kind)) return []
  const code = event.detail.code ?? 'a failure'
  return [
    {
      fingerprint: fingerprintOf(level, id),
      code: `${level}_circuit_open`,
      severity: event.detail.ping_first ? 'critical' : 'high',
      message: `The circuit of ${level} ${id} is open (${code}). It is tried again by itself after its cooldown.`,
      subject: { [level]: id, cause: code },
    },
  ]
}

function fingerprintOf(level: 'channel' | 'supply', id: string): string {
  return `circuit_open:${level}:${id}`
}
