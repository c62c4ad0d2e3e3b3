/** The auditor of secrets: none stands in the clear in what programs wrote, what customers were told, or any table. */
import type { Sql } from '../../src/store/database.ts'

/** By what it is called; findings never show the text. */
export type Secrets = Readonly<Record<string, string>>

/** `place`: where the text comes from, as a finding names it. */
export function secretsIn(place: string, text: string, secrets: Secrets): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) =>
    formsOf(secret).some((form) => text.includes(form)) ? [`${place} shows ${name}`] : [],
  )
}

/** Every column of every table as text: also JSON, arrays, and bytes as hexadecimal digits. */
export async function secretsInTables(db: Sql, secrets: Secrets): Promise<string[]> {
  const { rows: tables } = await db.query<{ name: string }>(
    `select c.oid::regclass::text as name from pg_class c
      where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
  )
  if (tables.length === 0) throw new Error('there is no table to search')
  const findings: string[] = []
  for (const { name } of tables) {
    for (const [what, secret] of Object.entries(secrets)) {
      const { rows } = await db.query<{ n: number }>(
        {
          name: `audit-secrets-${name}`,
          text: `select count(*)::int as n from ${name} t where t::text like any ($1)`,
        },
        [formsOf(secret).map((form) => `%${form.replaceAll(/[\\%_]/g, '\\$&')}%`)],
      )
      const n = rows[0]?.n ?? 0
      if (n > 0) findings.push(`table ${name} shows ${what} in ${n} rows`)
    }
  }
  return findings
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, '')]
}
