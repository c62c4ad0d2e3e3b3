/** The auditor of secrets: none stands in the clear in what programs wrote, what customers were told, or any table. */
import { inflateRawSync } from 'node:zlib'
import type { Sql } from '../../src/store/database.ts'

/** By what it is called; findings never show the text. */
export type Secrets = Readonly<Record<string, string>>

/** `place`: where the text comes from, as a finding names it. */
export function secretsIn(place: string, text: string, secrets: Secrets): string[] {
  return Object.entries(secrets).flatMap(([name, secret]) =>
    formsOf(secret).some((form) => text.includes(form)) ? [`${place} shows ${name}`] : [],
  )
}

/** Every column of every table as text: also JSON, arrays, bytes as hexadecimal digits, and what is compressed. */
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
  return [...findings, ...(await secretsInRecords(db, secrets))]
}

async function secretsInRecords(db: Sql, secrets: Secrets): Promise<string[]> {
  const { rows } = await db.query<{ content: Buffer }>('select content from round_record')
  const told = new Map<string, number>()
  for (const { content } of rows)
    for (const finding of secretsIn('', inflateRawSync(content).toString('utf8'), secrets))
      told.set(finding, (told.get(finding) ?? 0) + 1)
  return [...told].map(([finding, n]) => `table round_record${finding} in ${n} rows`)
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret)
  return [secret, bytes.toString('hex'), bytes.toString('base64').replace(/=+$/, '')]
}
