/**
 * How much a request may carry. One table, so that docs/api.md, the checks and their messages cannot drift apart.
 */
const MIB = 1024 * 1024

export const LIMITS = {
  /** A whole request body, JSON or multipart. Providers take no more than that either. */
  bodyBytes: 64 * MIB,
  /** One uploaded file, or one decoded data: URL. */
  fileBytes: 50 * MIB,
  /** Files in one request, data: URLs included. */
  files: 32,
  /** Parts of a multipart body, files included. */
  parts: 128,
  /** All header lines of one part. */
  partHeaderBytes: 8 * 1024,
  /** One text field of a multipart body that is no data: URL. */
  fieldBytes: 256 * 1024,
  fieldNameBytes: 256,
  filenameCharacters: 255,
  /** Levels of objects and arrays in a JSON body. */
  jsonDepth: 16,
  /** Values in a JSON body, at all levels together. */
  jsonValues: 10_000,
  promptCharacters: 32_000,
  modelCharacters: 128,
  urlCharacters: 8_192,
  /** References of one kind; the model's own limits come on top. */
  inputsOfOneKind: 32,
  metadataKeys: 16,
  metadataKeyCharacters: 64,
  metadataValueCharacters: 512,
  idempotencyKeyCharacters: 255,
  /** Asked for in one request; the model's own limits come on top. */
  images: 100,
  durationSeconds: 86_400,
  pageSize: 100,
} as const
