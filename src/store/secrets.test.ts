/** Credentials at rest: bound to their channel and key, and never to be read in an error. */
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isSealed, ownKeyring, parseKeyring, readKeyring, resolveReference, seal, unseal } from './secrets.ts'

const OLD = randomBytes(32).toString('base64')
const NEW = randomBytes(32).toString('hex')
const SECRET = 'sk-live-çédille-4242'

let dir: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'secrets-'))
})
afterEach(() => rm(dir, { recursive: true }))

describe('sealing', () => {
  const ring = parseKeyring(NEW, 'YARDMASTER_KEY')

  it('opens to what was sealed', () => {
    const sealed = seal(ring, SECRET, 'ark-1')
    expect(unseal(ring, sealed, 'ark-1')).toBe(SECRET)
    expect(sealed.nonce).toHaveLength(12)
    expect(sealed.ciphertext.includes(Buffer.from(SECRET))).toBe(false)
  })

  it('never seals twice alike', () => {
    const [one, two] = [seal(ring, SECRET, 'ark-1'), seal(ring, SECRET, 'ark-1')]
    expect(one.nonce.equals(two.nonce)).toBe(false)
    expect(one.ciphertext.equals(two.ciphertext)).toBe(false)
    expect(one.digest.equals(two.digest)).toBe(true)
  })

  it('does not open for another channel', () => {
    expect(() => unseal(ring, seal(ring, SECRET, 'ark-1'), 'ark-2')).toThrow(
      /channel ark-2 does not open.*another channel/,
    )
  })

  it('does not open when any byte was altered', () => {
    const sealed = seal(ring, SECRET, 'ark-1')
    for (const part of ['nonce', 'ciphertext'] as const) {
      for (let at = 0; at < sealed[part].length; at++) {
        const altered = Buffer.from(sealed[part])
        altered.writeUInt8(altered.readUInt8(at) ^ 1, at)
        expect(() => unseal(ring, { ...sealed, [part]: altered }, 'ark-1')).toThrow(/its row was altered/)
      }
    }
    expect(() => unseal(ring, { ...sealed, ciphertext: Buffer.alloc(3) }, 'ark-1')).toThrow(
      /its row was altered/,
    )
  })

  it('tells a changed secret without opening it', () => {
    const sealed = seal(ring, SECRET, 'ark-1')
    expect(isSealed(ring, sealed, { text: SECRET, channelId: 'ark-1' })).toBe(true)
    expect(isSealed(ring, sealed, { text: `${SECRET}x`, channelId: 'ark-1' })).toBe(false)
    expect(isSealed(ring, sealed, { text: SECRET, channelId: 'ark-2' })).toBe(false)
  })
})

describe('keys', () => {
  it('a new key seals while the old one still opens', () => {
    const before = parseKeyring(OLD, 'a file')
    const sealed = seal(before, SECRET, 'ark-1')
    const after = parseKeyring(`${NEW}\n${OLD}\n`, 'a file')
    expect(unseal(after, sealed, 'ark-1')).toBe(SECRET)
    expect(isSealed(after, sealed, { text: SECRET, channelId: 'ark-1' })).toBe(true)
    expect(seal(after, SECRET, 'ark-1').keyId).not.toBe(sealed.keyId)
    const without = parseKeyring(NEW, 'a file')
    expect(() => unseal(without, sealed, 'ark-1')).toThrow(
      new RegExp(`sealed with key ${sealed.keyId}, which is not configured`),
    )
    expect(isSealed(without, sealed, { text: SECRET, channelId: 'ark-1' })).toBe(false)
  })

  it('are the same key in base64, in URL-safe base64 and in hexadecimal', () => {
    const bytes = randomBytes(32)
    const ids = [
      bytes.toString('base64'),
      bytes.toString('base64url'),
      bytes.toString('hex'),
      bytes.toString('hex').toUpperCase(),
    ].map((text) => parseKeyring(text, 'x').current.id)
    expect(new Set(ids).size).toBe(1)
  })

  it.each([
    ['nothing', '  \n', /holds no key: put 32 random bytes/],
    ['too short', randomBytes(31).toString('base64'), /key 1 in KEY is not 32 bytes/],
    ['too long', randomBytes(33).toString('base64'), /key 1 in KEY is not 32 bytes/],
    ['a word', 'correct-horse-battery-staple', /key 1 in KEY is not 32 bytes.*28 characters/],
    ['a bad second one', `${NEW},abc`, /key 2 in KEY is not 32 bytes.*3 characters/],
    ['the wrong alphabet', '!'.repeat(44), /key 1 in KEY is not 32 bytes/],
  ])('refuses %s, and does not repeat it', (_, text, message) => {
    expect(() => parseKeyring(text, 'KEY')).toThrow(message)
    const said = (() => {
      try {
        parseKeyring(text, 'KEY')
        return ''
      } catch (error) {
        return String(error)
      }
    })()
    for (const word of text.split(/[\s,]+/).filter((one) => one.length > 8)) expect(said).not.toContain(word)
  })

  it('one is made for a fresh data directory, readable by its owner alone, and then kept', async () => {
    const first = await ownKeyring(join(dir, 'data'))
    expect((await stat(join(dir, 'data/secret.key'))).mode & 0o777).toBe(0o600)
    expect((await ownKeyring(join(dir, 'data'))).current.id).toBe(first.current.id)
  })

  it('processes that start at once agree on one', async () => {
    const rings = await Promise.all(Array.from({ length: 8 }, () => ownKeyring(dir)))
    expect(new Set(rings.map((ring) => ring.current.id)).size).toBe(1)
    expect(await readdir(dir)).toEqual(['secret.key'])
    expect((await readFile(join(dir, 'secret.key'), 'utf8')).trim()).toHaveLength(44)
  })

  it('a file that is missing is named', async () => {
    await expect(readKeyring(join(dir, 'none'))).rejects.toThrow(/key file .*none does not exist/)
  })
})

describe('references', () => {
  it('lead to the environment that was handed in, or to a file, without line ends', async () => {
    await writeFile(join(dir, 'key'), `${SECRET}\r\n`)
    expect(await resolveReference('env:ARK_KEY', { ARK_KEY: SECRET })).toBe(SECRET)
    expect(await resolveReference(`file:${join(dir, 'key')}`, {})).toBe(SECRET)
  })

  it.each([
    ['env:ARK_KEY', /environment variable ARK_KEY is not set/],
    ['env:EMPTY', /environment variable EMPTY is empty/],
    ['file:/does/not/exist', /file \/does\/not\/exist does not exist/],
    ['file:/', /file \/ is a folder/],
    ['file:/etc/passwd/key', /file \/etc\/passwd\/key cannot be read \(ENOTDIR\)/],
    ['sk-live-4242', /must be "env:NAME" or "file:PATH"/],
    ['env:', /must be "env:NAME" or "file:PATH"/],
  ])('%s is refused with a reason', async (reference, message) => {
    await expect(resolveReference(reference, { EMPTY: '' })).rejects.toThrow(message)
  })

  it('errors never hold a secret, not even one that was written where a reference belongs', async () => {
    await writeFile(join(dir, 'long'), SECRET.repeat(5000))
    for (const reference of [SECRET, `file:${join(dir, 'long')}`]) {
      await expect(resolveReference(reference, {})).rejects.toThrow(expect.not.stringContaining(SECRET))
    }
  })
})
