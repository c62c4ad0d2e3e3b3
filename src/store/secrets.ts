/**
 * Credentials at rest. The database holds them encrypted with AES-256-GCM and bound to their channel, so that a row
 * copied to another channel does not open; the key comes from a file or the environment and never reaches the database.
 * Errors here never repeat what they were given.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** What the table `credential` holds of a secret. */
export interface Sealed {
  readonly keyId: string
  readonly nonce: Buffer
  /** With the authentication tag as its last 16 bytes. */
  readonly ciphertext: Buffer
  readonly digest: Buffer
}

interface Key {
  readonly id: string
  readonly encryption: Buffer
  readonly digest: Buffer
}

/** The first key seals; all of them open, so that a key can be replaced while rows still need the old one. */
export interface Keyring {
  readonly current: Key
  readonly byId: ReadonlyMap<string, Key>
}

const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16
const LONGEST_SECRET = 65_536

/**
 * A keyring from text: one or more keys between spaces, commas or line ends, each 32 bytes in hexadecimal (64 characters) or
 * base64 (44). `source` names the place in errors.
 */
export function parseKeyring(text: string, source: string): Keyring {
  const words = text.split(/[\s,]+/).filter((word) => word !== '')
  const keys = words.map((word, at) => deriveKey(parseKey(word, `key ${at + 1} in ${source}`)))
  const [current] = keys
  if (!current) {
    throw new Error(
      `${source} holds no key: put 32 random bytes there in base64, for example of "openssl rand -base64 32"`,
    )
  }
  return { current, byId: new Map(keys.map((key) => [key.id, key])) }
}

export async function readKeyring(path: string): Promise<Keyring> {
  return parseKeyring(await readText(path, `the key file ${path}`), path)
}

/** The keyring in that directory, made with one random key where there is none. Processes that start at once agree. */
export async function ownKeyring(dataDir: string): Promise<Keyring> {
  const path = join(dataDir, 'secret.key')
  await mkdir(dirname(path), { recursive: true, mode: 0o711 })
  const part = `${path}.${randomBytes(6).toString('hex')}`
  await writeFile(part, `${randomBytes(KEY_BYTES).toString('base64')}\n`, {
    mode: 0o600,
    flag: 'wx',
    flush: true,
  })
  try {
    // A link, unlike a rename, never replaces a key that rows may be sealed with.
    await link(part, path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  } finally {
    await rm(part)
  }
  return readKeyring(path)
}

/** Encrypts a secret for that channel. */
export function seal(keyring: Keyring, secret: string, channelId: string): Sealed {
  const key = keyring.current
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key.encryption, nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(channelId))
  const body = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  const ciphertext = Buffer.concat([body, cipher.getAuthTag()])
  return { keyId: key.id, nonce, ciphertext, digest: digestOf(key, secret, channelId) }
}

/** The secret again. Throws where the key is not at hand, or where ciphertext, nonce or channel is not what was sealed. */
export function unseal(keyring: Keyring, sealed: Sealed, channelId: string): string {
  const key = keyring.byId.get(sealed.keyId)
  if (!key) {
    const known = [...keyring.byId.keys()].join(', ')
    throw new Error(
      `the credential of channel ${channelId} was sealed with key ${sealed.keyId}, which is not configured (configured: ${known}); add that key behind the current one`,
    )
  }
  try {
    const decipher = createDecipheriv('aes-256-gcm', key.encryption, sealed.nonce, {
      authTagLength: TAG_BYTES,
    })
    decipher.setAAD(Buffer.from(channelId))
    decipher.setAuthTag(sealed.ciphertext.subarray(-TAG_BYTES))
    const body = decipher.update(sealed.ciphertext.subarray(0, -TAG_BYTES))
    return Buffer.concat([body, decipher.final()]).toString('utf8')
  } catch {
    throw new Error(
      `the credential of channel ${channelId} does not open with key ${sealed.keyId}: its row was altered, or is another channel's`,
    )
  }
}

/** Whether that is the secret that was sealed, without opening it. false where its key is not at hand. */
export function isSealed(
  keyring: Keyring,
  sealed: Pick<Sealed, 'keyId' | 'digest'>,
  secret: { text: string; channelId: string },
): boolean {
  const key = keyring.byId.get(sealed.keyId)
  if (!key) return false
  const digest = digestOf(key, secret.text, secret.channelId)
  return digest.length === sealed.digest.length && timingSafeEqual(digest, sealed.digest)
}

/**
 * The secret that `env:NAME` or `file:PATH` refers to, without line ends behind it. `environment` is handed in, since one
 * place alone reads the process's. Throws an Error that names the reference and what to do.
 */
export async function resolveReference(
  reference: string,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  const [, kind, place = ''] = /^(env|file):(.+)$/s.exec(reference) ?? []
  if (kind === 'env') return checked(environment[place], `the environment variable ${place}`)
  if (kind === 'file') return checked(await readText(place, `the file ${place}`), `the file ${place}`)
  throw new Error('a credential reference must be "env:NAME" or "file:PATH"')
}

function checked(text: string | undefined, what: string): string {
  if (text === undefined) throw new Error(`${what} is not set`)
  const secret = text.replace(/[\r\n]+$/, '')
  if (secret === '') throw new Error(`${what} is empty`)
  if (secret.length > LONGEST_SECRET)
    throw new Error(`${what} is longer than ${LONGEST_SECRET} characters: is it the right one?`)
  return secret
}

async function readText(path: string, what: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const why: Record<string, string> = {
      ENOENT: 'does not exist',
      EACCES: 'may not be read by this account',
      EISDIR: 'is a folder',
    }
    throw new Error(`${what} ${why[code] ?? `cannot be read (${code})`}`)
  }
}

/** A keyed hash: without the key nobody can try which secret has it. */
function digestOf(key: Key, secret: string, channelId: string): Buffer {
  // The lengths keep "ab"+"c" apart from "a"+"bc".
  return createHmac('sha256', key.digest).update(`${channelId.length}:${channelId}:${secret}`).digest()
}

function parseKey(word: string, what: string): Buffer {
  const bytes = /^[0-9a-fA-F]{64}$/.test(word) ? Buffer.from(word, 'hex') : Buffer.from(word, 'base64')
  const canonical = /^[0-9a-fA-F]{64}$/.test(word) || /^[A-Za-z0-9+/_-]{43}=?$/.test(word)
  if (bytes.length === KEY_BYTES && canonical) return bytes
  throw new Error(
    `${what} is not 32 bytes in base64 (44 characters) or hexadecimal (64 characters); it has ${word.length} characters`,
  )
}

/** One purpose, one key: what is drawn from the master key for one tells nothing of the others. */
function deriveKey(master: Buffer): Key {
  const draw = (purpose: string, bytes: number) =>
    Buffer.from(hkdfSync('sha256', master, '', `yardmaster ${purpose}`, bytes))
  return {
    id: draw('key id', 4).toString('hex'),
    encryption: draw('encryption', KEY_BYTES),
    digest: draw('digest', KEY_BYTES),
  }
}
