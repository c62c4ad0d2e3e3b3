/** What a decision must tell operators (DEG-4, COST-6), as alerts in the transaction that stores its round. */
import type { DecisionAlert } from '../core/verdict.ts'
import type { Alert, Severity } from '../store/alerts.ts'
import type { DecidedRound } from '../store/round-record.ts'

const TEXT: Readonly<Record<DecisionAlert, { severity: Severity; message: string }>> = {
  exact_unavailable: { severity: 'high', message: 'Every exact supply is unavailable.' },
  degradation_used: {
    severity: 'high',
    message: 'Degradation is in use: requests are served with a lower profile.',
  },
  emergency_cost_override: {
    severity: 'critical',
    message: 'The emergency override let a request run over a cost limit.',
  },
  cost_limit_blocks: { severity: 'warning', message: 'A cost limit keeps every healthy exact supply out.' },
  price_missing: { severity: 'warning', message: 'A supply that could serve has no price for the request.' },
  baseline_missing: {
    severity: 'warning',
    message: 'A request ran without a normal cost to compare with, and without an absolute limit.',
  },
}

/** The alerts of several rounds, one for each model and kind. */
export function alertsOf(
  rounds: readonly { modelId: string; round: DecidedRound; alerts: readonly DecisionAlert[] }[],
): Alert[] {
  return rounds.flatMap(({ modelId, alerts }) =>
    alerts.map((code) => ({
      fingerprint: `${code}:model:${modelId}`,
      code,
      severity: TEXT[code].severity,
      message: `${modelId}: ${TEXT[code].message}`,
      subject: { model: modelId },
    })),
  )
}
