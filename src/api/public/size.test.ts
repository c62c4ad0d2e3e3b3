import { describe, expect, it } from 'vitest'
import { Problem } from '../problem.ts'
import { frameOfSize, sizeOfFrame } from './size.ts'

describe('size', () => {
  it.each([
    ['1280x720', '720p', '16:9'],
    ['720x1280', '720p', '9:16'],
    ['1920x1080', '1080p', '16:9'],
    ['3840x2160', '4k', '16:9'],
    ['854x480', '480p', '16:9'],
    ['848x480', '480p', '16:9'],
    ['640x480', '480p', '4:3'],
    ['1680x720', '720p', '21:9'],
    ['2520x1080', '1080p', '21:9'],
    ['1080x1080', '1080p', '1:1'],
    ['1080x720', '720p', '3:2'],
    ['1000x720', '720p', '25:18'],
  ])('CUS-5: %s is %s, %s', (size, resolution, aspectRatio) => {
    expect(frameOfSize(size)).toEqual({ resolution, aspectRatio })
  })

  it.each(['1792x1024', '1024x1792', '640x360', '0x720', '1280', '1280×720', ' 1280x720', '1280x720 '])(
    'CUS-5: %s is refused',
    (size) => {
      expect(() => frameOfSize(size)).toThrow(Problem)
    },
  )

  it('CUS-5: back to pixels, even ones, where the ratio has figures', () => {
    expect(sizeOfFrame({ resolution: '720p', aspectRatio: '16:9' })).toBe('1280x720')
    expect(sizeOfFrame({ resolution: '480p', aspectRatio: '9:16' })).toBe('480x854')
    expect(sizeOfFrame({ resolution: '1080p', aspectRatio: '1:1' })).toBe('1080x1080')
    expect(sizeOfFrame({ resolution: '720p', aspectRatio: 'adaptive' })).toBe('720p')
    expect(sizeOfFrame({ resolution: '768P', aspectRatio: '16:9' })).toBe('768P')
  })
})
