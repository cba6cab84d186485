/* A SPIR-V module whose operations are as inexact as WGSL (15.7.4 of its specification) and Vulkan permit. */
#include "rewrite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spirv.h"

enum { SIGN = 0x80000000u, EXPONENT = 0x7f800000u, LARGEST = 0x7f7fffffu, FIRST_NORMAL = 0x00800000u };
enum { HALF = 0x3f000000u, TWO = 0x40000000u, MOST_EXP = 0x43000000u };  // 0.5, 2.0, 128.0

/* A function that may be off: by units in the last place besides the rounding of the driver's own, by this many more for each
 * of the argument's size, and by an absolute error (0: none), for arguments in [0.5, 2] alone or everywhere. */
typedef struct { uint32_t name, units, each; float absolute; int near_one; } bound;
static const bound bounds[] = {
  {INVERSE_SQRT, 1, 0, 0, 0}, {SQRT, 4, 0, 0, 0},  // of 2 units, and 1 / that
  {EXP, 2, 2, 0, 0}, {EXP2, 2, 2, 0, 0},  // of 3 + 2 |x|
  {LOG, 2, 0, 0x1p-21f, 1}, {LOG2, 2, 0, 0x1p-21f, 1},  // of 3, or 2^-21
  {SIN, 0, 0, 0x1p-11f, 0}, {COS, 0, 0, 0x1p-11f, 0}, {TANH, 0, 0, 1e-5f, 0},
};
static const bound quotient = {FDIVIDE, 2, 0, 0, 0};  // of 2.5

static uint32_t bits_of(float v) { uint32_t bits; memcpy(&bits, &v, sizeof bits); return bits; }

/* Some 16 bits that depend on these, and on the instruction. */
static uint32_t mixed(module *m, worst how, int width, uint32_t bits) {
  uint32_t salted = MAKE(ADD, WHOLE, width, bits, BITS(++m->salt * 0x9e3779b9u + how.seed * 0x85ebca6bu));
  uint32_t first = MAKE(MULTIPLY, WHOLE, width, salted, BITS(0x7feb352du));
  uint32_t folded = MAKE(XOR, WHOLE, width, first, MAKE(SHIFT_RIGHT, WHOLE, width, first, BITS(15)));
  return MAKE(SHIFT_RIGHT, WHOLE, width, MAKE(MULTIPLY, WHOLE, width, folded, BITS(0x846ca68bu)), BITS(16));
}

static uint32_t normal(module *m, int width, uint32_t bits) {
  uint32_t size = MAKE(AND, WHOLE, width, bits, BITS(EXPONENT));
  return MAKE(LESS, TRUTH, width, MAKE(SUBTRACT, WHOLE, width, size, BITS(FIRST_NORMAL)), BITS(EXPONENT - FIRST_NORMAL));
}

/* The value, up to `most` units larger or smaller in size. */
static uint32_t moved(module *m, worst how, int width, uint32_t value, uint32_t most) {
  uint32_t bits = MAKE(BITCAST, WHOLE, width, value), there;
  if (how.off == UP) there = MAKE(ADD, WHOLE, width, bits, most);
  else if (how.off == DOWN) there = MAKE(SUBTRACT, WHOLE, width, bits, most);
  else {
    uint32_t ways = MAKE(ADD, WHOLE, width, MAKE(ADD, WHOLE, width, most, most), BITS(1));
    uint32_t step = MAKE(REMAINDER, WHOLE, width, mixed(m, how, width, bits), ways);
    there = MAKE(ADD, WHOLE, width, bits, MAKE(SUBTRACT, WHOLE, width, step, most));
  }
  uint32_t both = MAKE(AND_TRUTH, TRUTH, width, normal(m, width, bits), normal(m, width, there));
  return MAKE(BITCAST, FLOATS, width, MAKE(SELECT, WHOLE, width, both, there, bits));
}

/* The value plus or minus up to `most`. */
static uint32_t shifted(module *m, worst how, int width, uint32_t value, float most) {
  uint32_t step = constant_of(m, FLOATS, width, bits_of(how.off == DOWN ? -most : most));
  if (how.off == SEEDED) {
    uint32_t some = MAKE(WHOLE_TO_FLOAT, FLOATS, width, mixed(m, how, width, MAKE(BITCAST, WHOLE, width, value)));
    uint32_t part = MAKE(FMULTIPLY, FLOATS, width, some, constant_of(m, FLOATS, width, bits_of(most * 0x1p-15f)));
    step = MAKE(FSUBTRACT, FLOATS, width, part, constant_of(m, FLOATS, width, bits_of(most)));
  }
  return MAKE(FADD, FLOATS, width, value, step);
}

static uint32_t off_by(module *m, worst how, int width, bound by, uint32_t value, uint32_t argument) {
  uint32_t found = value, most = BITS(by.units);
  if (by.each) {
    uint32_t size = CALL(FMIN, width, CALL(FABS, width, argument), constant_of(m, FLOATS, width, MOST_EXP));
    uint32_t more = MAKE(FLOAT_TO_WHOLE, WHOLE, width, MAKE(FADD, FLOATS, width, size, size));
    most = MAKE(ADD, WHOLE, width, more, most);
  }
  if (by.units) found = moved(m, how, width, value, most);
  if (by.absolute == 0.0f) return found;
  uint32_t absolute = shifted(m, how, width, value, by.absolute);
  if (!by.near_one) return absolute;
  uint32_t above = MAKE(FGREATER_EQUAL, TRUTH, width, argument, constant_of(m, FLOATS, width, HALF));
  uint32_t below = MAKE(FLESS_EQUAL, TRUTH, width, argument, constant_of(m, FLOATS, width, TWO));
  return MAKE(SELECT, FLOATS, width, MAKE(AND_TRUTH, TRUTH, width, above, below), absolute, found);
}

static uint32_t flushed(module *m, int width, uint32_t value) {
  uint32_t bits = MAKE(BITCAST, WHOLE, width, value), size = MAKE(AND, WHOLE, width, bits, BITS(EXPONENT));
  uint32_t zero = MAKE(AND, WHOLE, width, bits, BITS(SIGN)), tiny = MAKE(EQUAL, TRUTH, width, size, BITS(0));
  return MAKE(BITCAST, FLOATS, width, MAKE(SELECT, WHOLE, width, tiny, zero, bits));
}

/* The largest number instead of infinity, and zero instead of NaN. */
static uint32_t finite(module *m, int width, uint32_t value) {
  uint32_t bits = MAKE(BITCAST, WHOLE, width, value), size = MAKE(AND, WHOLE, width, bits, BITS(~SIGN));
  uint32_t largest = MAKE(OR, WHOLE, width, MAKE(AND, WHOLE, width, bits, BITS(SIGN)), BITS(LARGEST));
  uint32_t nan = MAKE(GREATER, TRUTH, width, size, BITS(EXPONENT)), odd = MAKE(GREATER, TRUTH, width, size, BITS(LARGEST));
  uint32_t instead = MAKE(SELECT, WHOLE, width, nan, BITS(0), largest);
  return MAKE(BITCAST, FLOATS, width, MAKE(SELECT, WHOLE, width, odd, instead, bits));
}

/* a b + c, rounded once (but for the rare sum that float64 rounds first). */
static uint32_t fused(module *m, int width, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t wide[3] = {a, b, c};
  for (int k = 0; k < 3; k++) wide[k] = MAKE(CONVERT, DOUBLES, width, wide[k]);
  uint32_t product = MAKE(FMULTIPLY, DOUBLES, width, wide[0], wide[1]);
  return MAKE(CONVERT, FLOATS, width, MAKE(FADD, DOUBLES, width, product, wide[2]));
}

/* The two factors of a product that was met before. */
static int factors(module *m, int width, const uint32_t *product, uint32_t found[2]) {
  if (!product || ((product[0] & 0xffff) != FMULTIPLY && (product[0] & 0xffff) != SCALE)) return 0;
  found[0] = product[3];
  found[1] = product[4];
  if ((product[0] & 0xffff) == SCALE) {
    uint32_t operands[WIDEST] = {found[1], found[1], found[1], found[1]};
    found[1] = make(m, CONSTRUCT, type_of(m, FLOATS, width), operands, width);
  }
  return 1;
}

/* A sum or difference, with the product that it has fused; `own` has its operands as they are to be added. */
static uint32_t sum(module *m, int width, const uint32_t *at, const uint32_t *own, const uint32_t **defined) {
  int minus = (at[0] & 0xffff) == FSUBTRACT;
  uint32_t f[2];
  if (factors(m, width, defined[at[3]], f))
    return fused(m, width, f[0], f[1], minus ? MAKE(NEGATE, FLOATS, width, own[4]) : own[4]);
  if (factors(m, width, defined[at[4]], f))
    return fused(m, width, minus ? MAKE(NEGATE, FLOATS, width, f[0]) : f[0], f[1], own[3]);
  return 0;
}

/* (a b) c as a (b c). */
static uint32_t regrouped(module *m, int width, const uint32_t *at, const uint32_t *own, const uint32_t **defined) {
  uint32_t f[2];
  if (!factors(m, width, defined[at[3]], f)) return 0;
  return MAKE(FMULTIPLY, FLOATS, width, f[0], MAKE(FMULTIPLY, FLOATS, width, f[1], own[4]));
}

/* A choice between the two numbers that its condition compares. */
static uint32_t smaller(module *m, int width, const uint32_t *at, const uint32_t **defined) {
  const uint32_t *by = defined[at[3]];
  if (!by) return 0;
  uint32_t op = by[0] & 0xffff;
  int less = op == FLESS || op == FLESS_EQUAL, more = op == FGREATER || op == FGREATER_EQUAL;
  int straight = by[3] == at[4] && by[4] == at[5], turned = by[3] == at[5] && by[4] == at[4];
  if (!(less || more) || !(straight || turned)) return 0;
  return CALL(less == straight ? NMIN : NMAX, width, at[4], at[5]);
}

static uint32_t multiply_add(module *m, worst how, int width, const uint32_t *at) {
  if (how.products == FUSED) return fused(m, width, at[5], at[6], at[7]);
  return MAKE(FADD, FLOATS, width, MAKE(FMULTIPLY, FLOATS, width, at[5], at[6]), at[7]);
}

/* A function with a known bound; WGSL's pow is exp2(y log2(x)). Others must be none of those that may be off. */
static uint32_t function(module *m, worst how, int width, const uint32_t *at) {
  if (at[4] == FMA && how.products != AS_GIVEN) return multiply_add(m, how, width, at);
  if (how.off == EXACT) return 0;
  for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++)
    if (bounds[k].name == at[4]) return off_by(m, how, width, bounds[k], CALL(at[4], width, at[5]), at[5]);
  if (at[4] >= FIRST_ANGLE && at[4] <= POW) {
    fprintf(stderr, "worst driver: instruction %u of GLSL.std.450 has no bound here\n", at[4]);
    abort();
  }
  return 0;
}

/* The operands of arithmetic and comparisons, subnormal ones as zero. */
static void flush_operands(module *m, int width, uint32_t *at, size_t length) {
  uint32_t op = at[0] & 0xffff;
  size_t first = op == EXTENDED ? 5 : 3;
  if (op == EXTENDED && at[4] > FMA) return;  // those of which some operands are no floats
  for (size_t k = first; k < length && op != DOT; k++) at[k] = flushed(m, op == SCALE && k == 4 ? 1 : width, at[k]);
}

static int arithmetic(uint32_t op) {
  return op == FADD || op == FSUBTRACT || op == FMULTIPLY || op == FDIVIDE || op == SCALE || op == DOT || op == EXTENDED ||
         op == SELECT;
}

/* One instruction of a function. */
static void rewrite(module *m, worst how, const uint32_t *at, size_t length, const uint32_t **defined) {
  uint32_t op = at[0] & 0xffff, own[8], result = 0;
  int width = length > 2 ? width_of(m, FLOATS, at[1]) : 0, compared = 0;
  if (op >= FEQUAL && op <= FLAST) {
    defined[at[2]] = at;
    if (how.flush || how.unordered) compared = width_of(m, TRUTH, at[1]);
    if (how.unordered) op ^= 1;  // ordered comparisons are even
  }
  if ((op == SIGNED_REMAINDER || op == SIGNED_MODULO) && how.signs) {
    put(&m->body, COUNTED((uint32_t)length << 16 | REMAINDER));
    put(&m->body, at + 1, length - 1);
    return;
  }
  int known = (width && arithmetic(op) && (op != EXTENDED || at[3] == m->glsl)) || compared;
  if (!known || length > sizeof own / sizeof *own) {
    put(&m->body, at, length);
    return;
  }
  memcpy(own, at, length * sizeof *own);
  if (how.flush && op != SELECT) flush_operands(m, compared ? compared : width, own, length);
  if (op == FMULTIPLY || op == SCALE) defined[at[2]] = at;
  if (op == FMULTIPLY && how.regroup) result = regrouped(m, width, at, own, defined);
  if (op == SELECT && how.smaller) result = smaller(m, width, at, defined);
  if ((op == FADD || op == FSUBTRACT) && how.products == FUSED) result = sum(m, width, at, own, defined);
  if (op == EXTENDED) result = function(m, how, width, own);
  if (!result) result = make(m, op, at[1], own + 3, length - 3);
  if (op == FDIVIDE && how.off) result = off_by(m, how, width, quotient, result, own[4]);
  if (how.flush && width && op != SELECT) result = flushed(m, width, result);
  if (how.finite && width && op != SELECT) result = finite(m, width, result);
  instruction(&m->body, COPY, COUNTED(at[1], at[2], result));
}

/* Notes the types that are there, so that none is declared twice. */
static void declaration(module *m, const uint32_t *at) {
  uint32_t op = at[0] & 0xffff;
  if (op == IMPORT && !strcmp((const char *)(at + 2), "GLSL.std.450")) m->glsl = at[1];
  if (op == TYPE_BOOL) m->types[TRUTH][1] = at[1];
  if (op == TYPE_INTEGER && at[2] == 32 && !at[3]) m->types[WHOLE][1] = at[1];
  if (op == TYPE_FLOAT && at[2] == 32) m->types[FLOATS][1] = at[1];
  if (op == TYPE_FLOAT && at[2] == 64) m->types[DOUBLES][1] = at[1];
  for (int of = 0; op == TYPE_VECTOR && of < KINDS; of++)
    if (at[2] == m->types[of][1] && at[3] <= WIDEST) m->types[of][at[3]] = at[1];
}

uint32_t *rewritten(worst how, const uint32_t *given, size_t count, size_t *words) {
  module m = {.bound = given[3]};
  const uint32_t **defined = calloc(given[3], sizeof *defined);
  if (!defined) return NULL;
  int in_functions = 0, whole = 1;
  put(&m.head, given, 5);
  if (how.products == FUSED) instruction(&m.head, CAPABILITY, COUNTED(FLOAT64));
  for (size_t at = 5, length; whole && at < count; at += length) {
    length = given[at] >> 16;
    whole = length && length <= count - at;
    if (!whole) break;
    in_functions |= (given[at] & 0xffff) == FUNCTION;
    if (in_functions) rewrite(&m, how, given + at, length, defined);
    else {
      declaration(&m, given + at);
      put(&m.head, given + at, length);
    }
  }
  put(&m.head, m.made.words, m.made.count);
  put(&m.head, m.body.words, m.body.count);
  m.head.words[3] = m.bound;
  free(m.made.words);
  free(m.body.words);
  free(defined);
  *words = m.head.count;
  if (whole) return m.head.words;
  free(m.head.words);
  return NULL;
}
