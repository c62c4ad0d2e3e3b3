// Writes a bit string, most significant bit first: what H.264 and AAC headers are made of.

export class BitWriter {
  #bytes: number[] = []
  #current = 0
  #used = 0

  /** Appends the low `width` bits of `value` (width up to 32). */
  bits(value: number, width: number): this {
    for (let shift = width - 1; shift >= 0; shift--) this.#bit(Math.floor(value / 2 ** shift) % 2)
    return this
  }

  /** Appends an unsigned Exp-Golomb code (H.264 clause 9.1). */
  ue(value: number): this {
    const width = Math.floor(Math.log2(value + 1))
    return this.bits(0, width).bits(value + 1, width + 1)
  }

  /** Appends a signed Exp-Golomb code. */
  se(value: number): this {
    return this.ue(value > 0 ? value * 2 - 1 : -value * 2)
  }

  /** Fills up with zero bits to the next byte. */
  align(): this {
    while (this.#used !== 0) this.#bit(0)
    return this
  }

  /** Appends whole bytes; the position must be aligned. */
  bytes(bytes: Iterable<number>): this {
    for (const byte of bytes) this.#bytes.push(byte)
    return this
  }

  /** Appends `count` copies of one byte, at any bit position. */
  repeat(byte: number, count: number): this {
    for (let i = 0; i < count; i++) this.bits(byte, 8)
    return this
  }

  /** Ends with a one bit and zeros (rbsp_trailing_bits). */
  trailing(): this {
    return this.bits(1, 1).align()
  }

  toBuffer(): Buffer {
    return Buffer.from(this.#bytes)
  }

  #bit(bit: number): void {
    this.#current = this.#current * 2 + bit
    this.#used++
    if (this.#used < 8) return
    this.#bytes.push(this.#current)
    this.#current = 0
    this.#used = 0
  }
}
