/** A program that serves from a data directory and says so, until it is killed. */
import { startEmbedded } from '../../src/store/embedded.ts'

const log = { info() {}, warn: console.error, error: console.error }
const server = await startEmbedded({ dataDir: process.argv[2] ?? '', log, durable: false })
console.log(JSON.stringify({ url: server.url, adopted: server.adopted }))
setInterval(() => {}, 60_000)
