/**
 * Closing without waiting for nothing: a connection on which no request is being answered is closed at once, also one
 * that has never sent any, which Node itself waits for. Requests that are being answered are waited for.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export class Connections {
  /** How many requests are being answered on each. */
  readonly #open = new Map<Socket, number>()
  #closing = false

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#open.set(socket, 0)
      socket.once('close', () => this.#open.delete(socket))
    })
    server.prependListener('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#count(request.socket, 1)
      response.once('close', () => this.#count(request.socket, -1))
    })
  }

  /** From now on connections go as soon as they have nothing to answer. */
  close(): void {
    this.#closing = true
    for (const socket of this.#open.keys()) this.#count(socket, 0)
  }

  #count(socket: Socket, change: number): void {
    const busy = this.#open.get(socket)
    if (busy === undefined) return
    this.#open.set(socket, busy + change)
    if (this.#closing && busy + change === 0) socket.destroySoon()
  }
}
