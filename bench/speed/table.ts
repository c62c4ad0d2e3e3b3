/** The one table that is printed, in Markdown, so that it can be kept as it is. */
import { holds, type Line } from './figure.ts'
import type { Spread } from './rounds.ts'

const HEAD = ['figure', 'unit', 'ours', 'peer', 'ratio', 'demanded', '', 'note']

export function tableOf(lines: readonly Line[], judged: boolean): string {
  const rows = [HEAD, HEAD.map(() => '---'), ...lines.map((line) => rowOf(line, judged))]
  return rows.map((row) => `| ${row.join(' | ')} |`).join('\n')
}

function rowOf(line: Line, judged: boolean): string[] {
  const verdict = holds(line)
  return [
    line.what,
    line.unit,
    spread(line.ours),
    line.peer ? `${spread(line.peer.value)} (${line.peer.name})` : '',
    line.ratio ? spread(line.ratio) : '',
    demand(line),
    verdict === undefined || !judged ? '' : verdict ? 'holds' : '**does not hold**',
    (line.note ?? '').replaceAll('\n', ' ').replaceAll('|', '\\|'),
  ]
}

function demand(line: Line): string {
  if (line.demanded === undefined) return ''
  return 'least' in line.demanded ? `at least ${line.demanded.least}` : `at most ${line.demanded.most}`
}

/** Median, with the least and the greatest behind it. */
function spread(value: Spread | null): string {
  if (value === null) return '–'
  const { min, median, max } = value
  return min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`
}

function number(value: number): string {
  if (!Number.isFinite(value)) return '–'
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 0.1 ? 2 : 4
  return value.toLocaleString('en-GB', { maximumFractionDigits: digits })
}
