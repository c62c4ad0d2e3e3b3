/**
 * Money is a whole number of micro-units of the base currency: 1.5 yuan is 1_500_000n. Nothing in Yardmaster
 * adds or compares prices in floating point (STR-10).
 */
export type Micros = bigint
