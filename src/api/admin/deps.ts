/** What the admin routes are given by the composition root. */
import type { Desk } from '../../runtime/desk.ts'
import type { Outbox } from '../../runtime/outbox.ts'
import type { Dispatching } from '../../runtime/service.ts'
import type { Sql } from '../../store/database.ts'
import type { Keyring } from '../../store/secrets.ts'

export interface AdminDeps {
  readonly sql: Sql
  readonly token: string
  readonly dispatching: Pick<Dispatching, 'cancelTask'>
  readonly desk: Pick<Desk, 'list' | 'look' | 'decide'>
  readonly outbox: Pick<Outbox, 'test'>
  /** Seals the addresses of alert endpoints. */
  readonly keyring: Keyring
  /** Task, rounds, attempts and cost in words (ORD-16), as JSON; undefined where there is no such task. */
  readonly explainTask: (taskId: string) => Promise<object | null | undefined>
}
