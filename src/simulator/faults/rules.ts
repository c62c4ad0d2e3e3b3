// Rules that say when a fault is played. They are tried in the order in which they were set; the first
// one that fits a request is used up by one and plays its faults.

import type { Protocol } from '../configuration.ts'
import * as f from '../fields.ts'
import { type Effect, mergeEffects } from './effect.ts'
import { FAULT_KINDS, OPERATIONS, type Operation } from './kinds.ts'

/** What a rule may look at. */
export type Subject = {
  operation: Operation
  protocol: Protocol
  account: string
  model: string | null
  prompt: string
  attempt: string | null
  /** Of the job, in a callback. */
  status?: string
}

type Rule = {
  id: string
  on: Operation
  match: {
    protocol?: Protocol
    account?: string
    model?: string
    prompt?: string
    attempt?: string
    status?: string
  }
  /** Fits to let pass first. */
  skip: number
  /** Null: for ever. */
  times: number | null
  /** Part of the fits that it is played on, 0 to 1, drawn from the seed. */
  rate: number
  kinds: string[]
  faults: unknown
  effect: Effect
  seen: number
  played: number
}

export type Played = { effect: Effect; kinds: string[] }

const NOTHING: Played = { effect: {}, kinds: [] }
const KEYS = [
  'id',
  'on',
  'protocol',
  'account',
  'model',
  'prompt',
  'attempt',
  'status',
  'skip',
  'nth',
  'times',
  'rate',
  'fault',
]

export class Rules {
  #rules: Rule[] = []
  #sequence = 0
  #random: () => number

  constructor(random: () => number) {
    this.#random = random
  }

  /** Adds one rule, or each of an array; returns their IDs. Throws ControlError and adds none when one is wrong. */
  add(value: unknown): string[] {
    const read = Array.isArray(value)
      ? value.map((rule, i) => this.#read(rule, `rules[${i}]`))
      : [this.#read(value, 'rule')]
    this.#rules.push(...read)
    return read.map((rule) => rule.id)
  }

  remove(id: string): boolean {
    const before = this.#rules.length
    this.#rules = this.#rules.filter((rule) => rule.id !== id)
    return this.#rules.length < before
  }

  clear(): void {
    this.#rules = []
  }

  show(): unknown[] {
    return this.#rules.map((rule) => ({
      id: rule.id,
      on: rule.on,
      ...rule.match,
      skip: rule.skip,
      times: rule.times ?? 'forever',
      rate: rule.rate,
      fault: rule.faults,
      seen: rule.seen,
      played: rule.played,
    }))
  }

  /** The faults for a request of which only the head is known. */
  atHead(subject: Subject): Played {
    return this.#play(subject, true)
  }

  /** The faults for a request that was read. */
  atBody(subject: Subject): Played {
    return this.#play(subject, false)
  }

  #play(subject: Subject, head: boolean): Played {
    for (const rule of this.#rules) {
      if ((rule.effect.dropUnread === true) !== head || !fits(rule, subject)) continue
      rule.seen++
      if (rule.seen <= rule.skip) continue
      if (rule.rate < 1 && this.#random() >= rule.rate) continue
      rule.played++
      return rule
    }
    return NOTHING
  }

  #read(value: unknown, path: string): Rule {
    const input = f.record(value, path, KEYS)
    const on = f.oneOf(...OPERATIONS)(input.on, `${path}.on`)
    const faults = [input.fault]
      .flat()
      .map((fault, i, all) => readFault(fault, all.length > 1 ? `${path}.fault[${i}]` : `${path}.fault`, on))
    const effect = mergeEffects(faults.map((fault) => fault.effect))
    const match = readMatch(input, path)
    if (effect.dropUnread === true && (match.model !== undefined || match.prompt !== undefined))
      throw new f.ControlError(
        `${path}: reset is played before the body is read, so it cannot match on model or prompt`,
      )
    const nth = f.optional(input.nth, `${path}.nth`, f.whole)
    return {
      id: f.optional(input.id, `${path}.id`, f.text) ?? `rule-${++this.#sequence}`,
      on,
      match,
      skip: f.optional(input.skip, `${path}.skip`, f.whole) ?? Math.max(0, (nth ?? 1) - 1),
      times: readTimes(input.times, `${path}.times`),
      rate: f.optional(input.rate, `${path}.rate`, f.amount) ?? 1,
      kinds: faults.map((fault) => fault.kind),
      faults: input.fault,
      effect,
      seen: 0,
      played: 0,
    }
  }
}

function fits({ on, match, times, played }: Rule, subject: Subject): boolean {
  if (on !== subject.operation || (times !== null && played >= times)) return false
  if (match.protocol !== undefined && match.protocol !== subject.protocol) return false
  if (match.account !== undefined && match.account !== subject.account) return false
  if (match.model !== undefined && match.model !== subject.model) return false
  if (match.attempt !== undefined && match.attempt !== subject.attempt) return false
  if (match.status !== undefined && match.status !== subject.status) return false
  return match.prompt === undefined || subject.prompt.includes(match.prompt)
}

function readMatch(input: f.Json, path: string): Rule['match'] {
  const match: Rule['match'] = {}
  if (input.protocol !== undefined)
    match.protocol = f.oneOf('ark', 'openai', 'kling')(input.protocol, `${path}.protocol`)
  for (const name of ['account', 'model', 'prompt', 'attempt', 'status'] as const) {
    if (input[name] !== undefined) match[name] = f.text(input[name], `${path}.${name}`)
  }
  return match
}

function readTimes(value: unknown, path: string): number | null {
  if (value === undefined) return 1
  return value === 'forever' ? null : f.whole(value, path)
}

function readFault(value: unknown, path: string, on: Operation): { kind: string; effect: Effect } {
  if (!f.isRecord(value)) throw new f.ControlError(`${path}: expected an object with a kind`)
  const kind = f.oneOf(...Object.keys(FAULT_KINDS))(value.kind, `${path}.kind`)
  const known = FAULT_KINDS[kind]
  if (known === undefined) throw new f.ControlError(`${path}.kind: unknown`)
  if (!known.on.includes(on))
    throw new f.ControlError(`${path}.kind: ${kind} happens on ${known.on.join(', ')}, not on ${on}`)
  const input = f.record(value, path, ['kind', ...Object.keys(known.parameters)])
  const given = Object.fromEntries(
    Object.entries(known.parameters)
      .filter(([name]) => input[name] !== undefined)
      .map(([name, read]) => [name, read(input[name], `${path}.${name}`)]),
  )
  return { kind, effect: known.effect(given as Record<string, never>) }
}
