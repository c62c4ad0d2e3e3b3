/** What a command is given by the program around it: nothing here reads the environment or opens anything by itself. */
import type { Database } from '../store/database.ts'
import type { Keyring } from '../store/secrets.ts'

export interface Writer {
  write(text: string): unknown
}

export interface CliContext {
  /** DATABASE_URL, or the embedded one of DATA_DIR. The command closes it. */
  openDatabase(): Promise<Database>
  /** What credentials are sealed with. */
  openKeyring(): Promise<Keyring>
  readonly stdout: Writer
  readonly stderr: Writer
  readonly env: Readonly<Record<string, string | undefined>>
  /** End with a message on stderr. Status 1: it could not be done; 2: misuse. */
  fail(status: number, message: string): never
}

/** Run with the database, and close it whatever happens. */
export async function withDatabase<T>(context: CliContext, work: (db: Database) => Promise<T>): Promise<T> {
  const db = await context.openDatabase()
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}

/** Who does it, for the record. */
export function operator(context: CliContext): string {
  return context.env.USER || context.env.LOGNAME || 'operator'
}

/** A fault that a person can mend becomes one line and status 1; any other goes on as it is. */
export async function orFail<T>(
  context: CliContext,
  work: () => Promise<T>,
  faults: readonly (new (...args: never[]) => Error)[],
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Error && faults.some((fault) => error instanceof fault))
      context.fail(1, error.message)
    throw error
  }
}
