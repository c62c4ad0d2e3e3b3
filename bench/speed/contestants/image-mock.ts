/** A provider of images in a process of its own: answers at once with a small real picture, one of many, in base64. */
import { createServer } from 'node:http'
import { makeStill, rgbOf } from '../../../src/simulator/media/still.ts'

const PICTURES = Number(process.argv[2] ?? 256)
const answers = Array.from({ length: PICTURES }, (_, n) => {
  const picture = makeStill('png', { width: 1024, height: 1024, rgb: rgbOf(n), note: `picture ${n}` })
  const data = [{ b64_json: picture.toString('base64') }]
  return Buffer.from(JSON.stringify({ created: 1_796_000_000, data }))
})

let next = 0
const server = createServer((request, response) => {
  request.resume().on('end', () => {
    const body = answers[next++ % answers.length]
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': body?.length ?? 0 })
    response.end(body)
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the mock has no port')
  process.send?.(address.port)
})
process.on('disconnect', () => process.exit(0))
