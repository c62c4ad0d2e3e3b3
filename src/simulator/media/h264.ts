// A still H.264 picture of one colour, any size, without an encoder.
//
// The first macroblock carries its samples raw (I_PCM); every other one is predicted from its neighbours
// with nothing left to add, which costs eight bits. A picture that repeats is one skip run. So a frame
// of 1280x720 is 4 kB and its repetition a dozen bytes, and every decoder accepts it.

import { BitWriter } from './bits.ts'

export type Colour = { y: number; cb: number; cr: number }
export type FrameSize = { width: number; height: number }

const macroblocks = ({ width, height }: FrameSize) => ({
  across: Math.ceil(width / 16),
  down: Math.ceil(height / 16),
})

/** The lowest level whose picture size and rate (24 frames/s) allow this frame. */
export function levelOf(size: FrameSize): number {
  const { across, down } = macroblocks(size)
  if (across * down <= 3600) return 31
  if (across * down <= 8192) return 40
  return 52
}

/** The sequence parameter set. Width and height must be even. */
export function sequenceParameters(size: FrameSize): Buffer {
  const { across, down } = macroblocks(size)
  const w = new BitWriter().bits(66, 8).bits(0b11000000, 8).bits(levelOf(size), 8)
  // id 0, frame_num of 8 bits, output order = decoding order, one reference frame, no gaps
  w.ue(0).ue(4).ue(2).ue(1).bits(0, 1)
  w.ue(across - 1).ue(down - 1)
  w.bits(1, 1).bits(1, 1) // frames only, direct 8x8
  crop(w, across * 16 - size.width, down * 16 - size.height)
  w.bits(0, 1).trailing() // no VUI
  return nal(0x67, w.toBuffer())
}

function crop(w: BitWriter, right: number, bottom: number): void {
  if (right === 0 && bottom === 0) return void w.bits(0, 1)
  w.bits(1, 1)
    .ue(0)
    .ue(right / 2)
    .ue(0)
    .ue(bottom / 2)
}

/** The picture parameter set: CAVLC, one slice group, deblocking may be switched off per slice. */
export function pictureParameters(): Buffer {
  const w = new BitWriter().ue(0).ue(0).bits(0, 2).ue(0).ue(0).ue(0).bits(0, 1).bits(0, 2)
  w.se(0).se(0).se(0).bits(1, 1).bits(0, 1).bits(0, 1).trailing()
  return nal(0x68, w.toBuffer())
}

/** A key frame of one colour. `idrId` must differ between neighbouring key frames. */
export function keyFrame(size: FrameSize, colour: Colour, idrId: number): Buffer {
  const { across, down } = macroblocks(size)
  const w = new BitWriter()
  w.ue(0).ue(7).ue(0).bits(0, 8).ue(idrId) // first macroblock, I slice, PPS 0, frame_num 0
  w.bits(0, 1).bits(0, 1).se(0).ue(1) // no output of prior pictures, no long term, QP, no deblocking
  rawMacroblock(w, colour)
  for (let row = 0; row < down; row++) predictedRow(w, row, across)
  return nal(0x65, w.trailing().toBuffer())
}

function rawMacroblock(w: BitWriter, { y, cb, cr }: Colour): void {
  w.ue(25).align()
  w.repeat(y, 256).repeat(cb, 64).repeat(cr, 64)
}

// mb_type I_16x16 DC (00100), chroma DC (1), no QP change (1), and no coefficients, whose code is '1',
// but '000011' right beside the raw macroblock, which counts as sixteen coefficients.
function predictedRow(w: BitWriter, row: number, across: number): void {
  for (let column = row === 0 ? 1 : 0; column < across; column++) {
    const besideRaw = row + column === 1
    if (besideRaw) w.bits(0b0010011000011, 13)
    else w.bits(0b00100111, 8)
  }
}

/** A frame that repeats the one before it. */
export function repeatedFrame(size: FrameSize, frameNumber: number): Buffer {
  const { across, down } = macroblocks(size)
  const w = new BitWriter()
  w.ue(0)
    .ue(5)
    .ue(0)
    .bits(frameNumber % 256, 8) // P slice
  w.bits(0, 1).bits(0, 1).bits(0, 1).se(0).ue(1) // default references, no marking, QP, no deblocking
  w.ue(across * down)
  return nal(0x41, w.trailing().toBuffer())
}

/** Puts the header byte before the payload and escapes what would look like a start code. */
function nal(header: number, payload: Buffer): Buffer {
  const out: number[] = [header]
  let zeros = 0
  for (const byte of payload) {
    if (zeros >= 2 && byte <= 3) {
      out.push(3)
      zeros = 0
    }
    out.push(byte)
    zeros = byte === 0 ? zeros + 1 : 0
  }
  return Buffer.from(out)
}
