// What a picture encoder is told.

export type StillSpec = {
  width: number
  height: number
  rgb: [number, number, number]
  /** Latin-1 text kept inside the file. */
  note: string
}
