/**
 * An alert in the shape that each kind of endpoint takes, and what its answer means (docs/alert-delivery.md). Chat tools
 * answer 200 to what they refuse: there the body tells.
 */
import { createHmac } from 'node:crypto'
import type { Address, AlertPayload, EndpointKind } from '../store/alert-endpoints.ts'

export interface Told {
  readonly messageId: string
  readonly event: 'raised' | 'resolved' | 'test'
  readonly alert: AlertPayload
  /** Unix time in ms. */
  readonly now: number
}

export interface Message {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export function messageFor(kind: EndpointKind, to: Address, told: Told): Message {
  switch (kind) {
    case 'webhook':
      return standardWebhook(to, told)
    case 'slack':
      return plain(to.url, slack(told))
    case 'feishu':
      return plain(to.url, { ...feishuSignature(to.secret, told.now), ...feishu(told) })
    case 'dingtalk':
      return plain(dingtalkUrl(to, told.now), {
        msgtype: 'markdown',
        markdown: { title: title(told), text: markdown(told) },
      })
    case 'wecom':
      return plain(to.url, { msgtype: 'markdown', markdown: { content: markdown(told) } })
  }
}

function plain(url: string, body: object): Message {
  return { url, headers: { 'content-type': 'application/json' }, body: Buffer.from(JSON.stringify(body)) }
}

/** Standard Webhooks: `v1,` and the HMAC-SHA256 of `{id}.{timestamp}.{body}` in base64, under the secret behind `whsec_`. */
function standardWebhook(to: Address, told: Told): Message {
  const { messageId, event, alert, now } = told
  const body = Buffer.from(
    JSON.stringify({ type: `alert.${event}`, timestamp: new Date(now).toISOString(), data: alert }),
  )
  const timestamp = String(Math.floor(now / 1000))
  const id = `msg_${messageId.replaceAll('-', '')}`
  const signed =
    to.secret === null ? {} : { 'webhook-signature': `v1,${signature(to.secret, { id, timestamp, body })}` }
  return {
    url: to.url,
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      ...signed,
    },
    body,
  }
}

export function signature(
  secret: string,
  signed: { readonly id: string; readonly timestamp: string; readonly body: Uint8Array },
): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return createHmac('sha256', key)
    .update(`${signed.id}.${signed.timestamp}.`)
    .update(signed.body)
    .digest('base64')
}

function title({ event, alert }: Told): string {
  const mark = event === 'resolved' ? 'RESOLVED' : event === 'test' ? 'TEST' : alert.severity.toUpperCase()
  return `[${mark}] ${alert.code}`
}

function detail({ alert }: Told): string {
  const subject = Object.entries(alert.subject).map(([name, value]) => `${name}: ${value}`)
  const times =
    alert.count > 1 ? [`${alert.count} times since ${alert.first_at}`] : [`since ${alert.first_at}`]
  return [...subject, ...times].join(' · ')
}

/** Slack's own three characters. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function slack(told: Told): object {
  const text = `*${escaped(title(told))}*\n${escaped(told.alert.message)}\n${escaped(detail(told))}`
  return {
    text: escaped(title(told)),
    blocks: [{ type: 'section', text: { type: 'mrkdwn', text: text.slice(0, 2900) } }],
  }
}

function feishu(told: Told): object {
  return { msg_type: 'text', content: { text: `${title(told)}\n${told.alert.message}\n${detail(told)}` } }
}

/** The key is time and secret, the text is empty: that is Feishu's own way. */
function feishuSignature(secret: string | null, now: number): object {
  if (secret === null) return {}
  const timestamp = String(Math.floor(now / 1000))
  return { timestamp, sign: createHmac('sha256', `${timestamp}\n${secret}`).digest('base64') }
}

function dingtalkUrl(to: Address, now: number): string {
  if (to.secret === null) return to.url
  const url = new URL(to.url)
  url.searchParams.set('timestamp', String(now))
  url.searchParams.set(
    'sign',
    createHmac('sha256', to.secret).update(`${now}\n${to.secret}`).digest('base64'),
  )
  return url.toString()
}

function markdown(told: Told): string {
  return `**${title(told)}**\n\n${told.alert.message}\n\n${detail(told)}`
}

export type Reception =
  | { readonly kind: 'delivered' }
  /** 410: nobody wants it any more. */
  | { readonly kind: 'gone' }
  | { readonly kind: 'failed'; readonly why: string }

/** What an answer says. */
export function receptionOf(kind: EndpointKind, status: number, body: Buffer): Reception {
  if (status === 410) return { kind: 'gone' }
  if (status < 200 || status >= 300) return { kind: 'failed', why: `it answered ${status}` }
  const refused = kind === 'webhook' || kind === 'slack' ? null : refusalIn(body)
  return refused === null ? { kind: 'delivered' } : { kind: 'failed', why: `it answered 200 with ${refused}` }
}

const CODES = ['errcode', 'code', 'StatusCode']

/** Feishu: `code` (or `StatusCode`), DingTalk and WeCom: `errcode`; anything but 0 is a refusal. */
function refusalIn(body: Buffer): string | null {
  const said = parsed(body)
  for (const name of CODES) {
    const code = said[name]
    if (code !== undefined && code !== 0) return `${name} ${String(code).slice(0, 20)}`
  }
  return CODES.some((name) => said[name] === 0) ? null : 'no code'
}

function parsed(body: Buffer): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'))
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}
