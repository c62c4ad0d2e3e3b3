/** Where the time of a lifecycle goes: a CPU profile of our process, and what PostgreSQL worked at longest. */
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { race } from './contestant.ts'
import type { Bench } from './figure.ts'
import { lifecycleCourse, wideYard } from './lifecycles.ts'

interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  }[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

interface StatementTime {
  readonly query: string
  readonly calls: string
  readonly total: number
}

/** Writes the profile, which browsers show as a flame graph, into `dir`, and answers a summary in Markdown. */
export async function profileLifecycles(bench: Bench, dir: string): Promise<string> {
  await mkdir(dir, { recursive: true })
  await bench.cluster.withStatements()
  const database = await wideYard(bench)
  try {
    await database.rows('create extension if not exists pg_stat_statements')
    await database.rows('select pg_stat_statements_reset()')
    const nodeOptions = ['--cpu-prof', `--cpu-prof-dir=${resolve(dir)}`]
    const reached = await race(database, { ...lifecycleCourse(bench), seconds: 10, nodeOptions })
    const statements = await database.rows<StatementTime & Record<string, unknown>>(
      `select regexp_replace(query, '\\s+', ' ', 'g') as query, calls, total_exec_time as total from pg_stat_statements s
        join pg_database d on d.oid = s.dbid where d.datname = current_database() order by total_exec_time desc limit 25`,
    )
    const [total] = await database.rows<{ total: number }>(
      `select sum(total_exec_time) as total from pg_stat_statements s join pg_database d on d.oid = s.dbid where d.datname = current_database()`,
    )
    const used = (reached.cpuSeconds / reached.wallSeconds).toFixed(2)
    return [
      `${Math.round(reached.perSecond)}/s; ${reached.done} done; our process used ${used} of a core.`,
      await functions(dir),
      statementTable(statements, Number(total?.total), reached.done),
    ].join('\n\n')
  } finally {
    await database.drop()
  }
}

async function functions(dir: string): Promise<string> {
  const [file] = (await readdir(dir))
    .filter((name) => name.endsWith('.cpuprofile'))
    .sort()
    .slice(-1)
  if (!file) throw new Error(`Node wrote no profile into ${dir}`)
  const profile: CpuProfile = JSON.parse(await readFile(resolve(dir, file), 'utf8'))
  const self = new Map<string, number>()
  const names = new Map(profile.nodes.map((node) => [node.id, nameOf(node.callFrame)]))
  let all = 0
  for (const [n, id] of profile.samples.entries()) {
    const name = names.get(id) ?? '?'
    const micros = profile.timeDeltas[n] ?? 0
    self.set(name, (self.get(name) ?? 0) + micros)
    if (!name.startsWith('(idle)')) all += micros
  }
  const rows = [...self]
    .filter(([name]) => !name.startsWith('(idle)'))
    .sort((a, b) => b[1] - a[1])
    .slice(0, 25)
    .map(([name, micros]) => `| ${((100 * micros) / all).toFixed(1)} % | ${name} |`)
  return ['| of our busy time | function |', '| --- | --- |', ...rows].join('\n')
}

function nameOf(frame: CpuProfile['nodes'][number]['callFrame']): string {
  const file = frame.url.replace(/^.*\/(?=(src|bench|node_modules)\/)/, '')
  return `${frame.functionName || '(nameless)'} ${file}${file === '' ? '' : `:${frame.lineNumber + 1}`}`
}

function statementTable(rows: readonly StatementTime[], total: number, done: number): string {
  const lines = rows.map(
    ({ query, calls, total: time }) =>
      `| ${((100 * time) / total).toFixed(1)} % | ${(time / done).toFixed(3)} | ${(Number(calls) / done).toFixed(2)} | ${(time / Number(calls)).toFixed(3)} | ${query.slice(0, 110).replaceAll('|', '\\|')} |`,
  )
  return [
    '| of the time | ms a lifecycle | calls a lifecycle | ms a call | statement |',
    '| --- | --- | --- | --- | --- |',
    ...lines,
  ].join('\n')
}
