/**
 * Under which account PostgreSQL runs, and what that account can reach. PostgreSQL refuses to run as root; so root lends it
 * an account without rights, which may then be unable to enter the folder that root alone can read.
 */
import { execFile } from 'node:child_process'
import { readFile, stat } from 'node:fs/promises'
import { promisify } from 'node:util'

const execute = promisify(execFile)

/** null: our own account, which is not root. */
export type Account = { readonly uid: number; readonly gid: number } | null

/** Accounts that root may lend, the best first. initdb insists on one that /etc/passwd knows. */
const LENDABLE = ['yardmaster', 'nobody']

/**
 * The account for a cluster: that of the files' owner where they exist, so that a changed /etc/passwd does not lock
 * PostgreSQL out of its own files. Throws when root has no account to lend.
 */
export async function chooseAccount(clusterDir: string): Promise<Account> {
  if (process.getuid?.() !== 0) return null
  const owner = await stat(clusterDir).catch(() => null)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  const known = parsePasswd(await readFile('/etc/passwd', 'utf8'))
  for (const name of LENDABLE) {
    const account = known.get(name)
    if (account && account.uid !== 0) return account
  }
  throw new Error(
    'PostgreSQL does not run as root, and /etc/passwd has no account "yardmaster" or "nobody" to run it under; add one, or start as an ordinary user',
  )
}

function parsePasswd(text: string): Map<string, { uid: number; gid: number }> {
  const rows = text.split('\n').map((line) => line.split(':'))
  return new Map(rows.map((row) => [row[0] ?? '', { uid: Number(row[2]), gid: Number(row[3]) }]))
}

/**
 * Whether the account can read that path, and enter it if it is a folder. Asked of the kernel by a process of that
 * account, since mode bits alone do not tell (ACLs, mounts).
 */
export async function canRead(account: Account, path: string): Promise<boolean> {
  const script = 'test -r "$1" && { test ! -d "$1" || test -x "$1"; }'
  try {
    await execute('/bin/sh', ['-c', script, 'sh', path], { ...account, cwd: '/', env: {} })
    return true
  } catch {
    return false
  }
}
