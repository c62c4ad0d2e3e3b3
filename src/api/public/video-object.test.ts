import { describe, expect, it } from 'vitest'
import type { TaskView } from '../../store/api-reads.ts'
import { toVideo, videoObject } from './video-object.ts'

const TASK: TaskView = {
  id: '019ad8f2-0000-7000-8000-000000000001',
  model: 'm',
  state: 'queued',
  attempts: 0,
  progress: 0,
  createdAt: 1_700_000_000_900_000,
  endedAt: null,
  expiresAt: null,
  errorCode: null,
  errorParam: null,
  facts: {
    media: 'video',
    billing_mode: null,
    degradation: null,
    duration_seconds: 5,
    resolution: '720p',
    aspect_ratio: '16:9',
    generate_audio: false,
    inputs: {},
  },
  prompt: 'p',
  metadata: {},
  echo: { size: null },
  profile: '933',
  shortfalls: [],
  measured: null,
  degraded: null,
}

const ENDED = 1_700_000_050_000_000

describe('the video object', () => {
  it('CUS-3: has every key of the dialect and its own, and passes its published schema', () => {
    const video = toVideo(TASK)
    expect(videoObject.parse(video)).toEqual(video)
    expect(video).toMatchObject({
      id: 'video_019ad8f2000070008000000000000001',
      object: 'video',
      created_at: 1_700_000_000,
      completed_at: null,
      expires_at: null,
      remixed_from_video_id: null,
      error: null,
      seconds: '5',
      size: '1280x720',
    })
  })

  it('UNK-6: running in whatever way is in_progress, also between two attempts', () => {
    expect(toVideo({ ...TASK, state: 'running', attempts: 1 }).status).toBe('in_progress')
    expect(toVideo({ ...TASK, state: 'queued', attempts: 1 }).status).toBe('in_progress')
    expect(toVideo(TASK).status).toBe('queued')
  })

  it('CUS-3: ended well, badly, or cancelled', () => {
    expect(
      toVideo({ ...TASK, state: 'succeeded', progress: 97, endedAt: ENDED, expiresAt: ENDED }),
    ).toMatchObject({
      status: 'completed',
      progress: 100,
      completed_at: 1_700_000_050,
      expires_at: 1_700_000_050,
      error: null,
    })
    expect(
      toVideo({ ...TASK, state: 'failed', errorCode: 'generation_timeout', endedAt: ENDED }),
    ).toMatchObject({
      status: 'failed',
      completed_at: null,
      error: { code: 'generation_timeout', message: expect.any(String) },
    })
    expect(toVideo({ ...TASK, state: 'cancelled', endedAt: ENDED })).toMatchObject({
      status: 'failed',
      error: { code: 'cancelled' },
    })
    expect(toVideo({ ...TASK, state: 'failed', errorCode: 'key_refused', endedAt: ENDED }).error?.code).toBe(
      'generation_failed',
    )
  })

  it('DEG-3: says what was asked for, what is delivered, and what was dropped', () => {
    const degraded = {
      requested_profile: '933',
      actual_profile: '900',
      dropped_inputs: ['reference_videos', 'reference_audios'],
      changes: [{ field: 'resolution', from: '1080p', to: '720p' }],
      sent: { media: 'video', billing_mode: null, degradation: null, inputs: {} } as const,
    }
    const { sent: _, ...told } = degraded
    expect(toVideo({ ...TASK, degraded })).toMatchObject({ degraded: true, ...told })
    expect(JSON.stringify(toVideo({ ...TASK, degraded }))).not.toContain('"sent"')
    expect(toVideo({ ...TASK, degraded: { ...degraded, dropped_inputs: [] } })).toMatchObject({
      degraded: true,
      actual_profile: '900',
      dropped_inputs: [],
    })
    expect(toVideo(TASK)).toMatchObject({
      degraded: false,
      requested_profile: '933',
      actual_profile: '933',
      dropped_inputs: [],
    })
  })
})
