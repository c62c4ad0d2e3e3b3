/**
 * One supervisor for one data directory. The lock is a socket in the kernel's abstract namespace, named by the
 * directory's device and inode: it is taken atomically, needs no file, and is gone when its process is, however it died.
 * (Processes in other network namespaces do not see it; PostgreSQL's own lock on its files still stands against them.)
 */
import { stat } from 'node:fs/promises'
import { createServer } from 'node:net'

/** Another process serves this data directory. */
export class DataDirectoryInUse extends Error {
  constructor(dataDir: string) {
    super(
      `another Yardmaster is already serving from ${dataDir}; stop that one, or give this one a DATA_DIR of its own, or let both share a DATABASE_URL`,
    )
    this.name = 'DataDirectoryInUse'
  }
}

/** Holds the directory until the answer is called or the process ends. Throws DataDirectoryInUse. */
export async function holdDirectory(dataDir: string): Promise<() => void> {
  const { dev, ino } = await stat(dataDir, { bigint: true })
  const server = createServer((socket) => socket.destroy())
  // The lock alone keeps no process alive.
  server.unref()
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject('code' in error && error.code === 'EADDRINUSE' ? new DataDirectoryInUse(dataDir) : error),
    )
    server.listen(`\0yardmaster:${dev}:${ino}`, resolve)
  })
  return () => void server.close()
}
