/* Rewrites for things that a driver may do and software drivers do not. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef enum { EXACT, UP, DOWN, SEEDED } direction;  // in which results that need not be exact are off
typedef enum { AS_GIVEN, SPLIT, FUSED } products;    // what becomes of products that are added

typedef struct {
  direction off;
  products products;
  uint32_t seed;
  int flush;    // subnormal operands and results are zero
  int finite;   // no operation makes an infinity or NaN
  int regroup;  // a product of three begins with the last two
  int smaller;  // the smaller or larger of two, chosen by comparing them, is never NaN
  int unordered;  // comparisons with NaN are true where they are false by IEEE 754, and the other way round
  int signs;    // remainders of negative integers are what they are of the same bits without a sign, as Vulkan 1.3 leaves open
} worst;

/* The module as such a driver computes it, to be freed; NULL where it is malformed. */
uint32_t *rewritten(worst how, const uint32_t *given, size_t count, size_t *words);
