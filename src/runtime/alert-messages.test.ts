import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { EndpointKind } from '../store/alert-endpoints.ts'
import { messageFor, receptionOf, signature } from './alert-messages.ts'

describe('messages', () => {
  const told = {
    messageId: '01930f6e-7a1b-7c3d-8e4f-5a6b7c8d9e0f',
    event: 'raised' as const,
    now: 1_781_080_794_000,
    alert: {
      id: 'a',
      code: 'channel_circuit_open',
      severity: 'critical' as const,
      message: 'The circuit of <north> & co is open.',
      subject: { channel: 'north' },
      count: 2,
      first_at: '2026-06-10T08:00:00Z',
      last_at: '2026-06-10T08:01:00Z',
      resolved_at: null,
    },
  }
  const bodyOf = (kind: EndpointKind, secret: string | null = null) =>
    JSON.parse(messageFor(kind, { url: 'https://h.example/x', secret }, told).body.toString())

  it('the published vector of Standard Webhooks', () => {
    const secret = 'whsec_dGVzdHNlY3JldHRlc3RzZWNyZXR0ZXN0c2VjcmV0MTI='
    const body =
      '{"id":"1234567890","status":"succeeded","message":"","create_time":1781080778802,"update_time":1781080794151}'
    const signed = { id: '9876543210', timestamp: '1781080794', body: Buffer.from(body) }
    expect(signature(secret, signed)).toBe('UsKlJP00XoQyOn410NM9xv34sP+Gl0jnOO9Lcpr7NJ4=')
  })

  it('Slack: text and a section, its three characters escaped', () => {
    const body = bodyOf('slack')
    expect(body.text).toBe('[CRITICAL] channel_circuit_open')
    expect(body.blocks[0]).toMatchObject({ type: 'section', text: { type: 'mrkdwn' } })
    expect(body.blocks[0].text.text).toContain('The circuit of &lt;north&gt; &amp; co is open.')
  })

  it('Feishu: a text, signed where there is a secret', () => {
    expect(bodyOf('feishu')).toEqual({
      msg_type: 'text',
      content: {
        text: '[CRITICAL] channel_circuit_open\nThe circuit of <north> & co is open.\nchannel: north · 2 times since 2026-06-10T08:00:00Z',
      },
    })
    const sign = createHmac('sha256', '1781080794\ns3cret').update('').digest('base64')
    expect(bodyOf('feishu', 's3cret')).toMatchObject({ timestamp: '1781080794', sign })
  })

  it('DingTalk: markdown, time and signature in the query', () => {
    const message = messageFor(
      'dingtalk',
      { url: 'https://oapi.example/robot/send?access_token=t', secret: 'SEC1' },
      told,
    )
    const { searchParams } = new URL(message.url)
    expect(searchParams.get('access_token')).toBe('t')
    expect(searchParams.get('timestamp')).toBe('1781080794000')
    expect(searchParams.get('sign')).toBe(
      createHmac('sha256', 'SEC1').update('1781080794000\nSEC1').digest('base64'),
    )
    expect(JSON.parse(message.body.toString())).toMatchObject({
      msgtype: 'markdown',
      markdown: { title: '[CRITICAL] channel_circuit_open' },
    })
  })

  it('WeCom: markdown', () => {
    expect(bodyOf('wecom')).toMatchObject({
      msgtype: 'markdown',
      markdown: { content: expect.stringContaining('north') },
    })
  })

  it.each([
    ['webhook', 200, '', 'delivered'],
    ['webhook', 204, '', 'delivered'],
    ['webhook', 301, '', 'failed'],
    ['webhook', 410, '', 'gone'],
    ['slack', 200, 'ok', 'delivered'],
    ['slack', 404, 'no_team', 'failed'],
    ['feishu', 200, '{"code":0,"msg":"success"}', 'delivered'],
    ['feishu', 200, '{"StatusCode":0}', 'delivered'],
    ['feishu', 200, '{"code":19021,"msg":"sign match fail"}', 'failed'],
    ['dingtalk', 200, '{"errcode":0,"errmsg":"ok"}', 'delivered'],
    ['dingtalk', 200, '{"errcode":310000,"errmsg":"sign not match"}', 'failed'],
    ['wecom', 200, '{"errcode":93000}', 'failed'],
    ['wecom', 200, '<html>', 'failed'],
  ] as const)('%s answering %d %s: %s', (kind, status, body, expected) => {
    expect(receptionOf(kind, status, Buffer.from(body)).kind).toBe(expected)
  })
})
