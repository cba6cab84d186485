/* The parts of SPIR-V 1.6 (sections 3.49 and 3.52) and of GLSL.std.450 that the layer reads and writes, and the module that
 * is being written. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { CAPABILITY = 17, IMPORT = 11, EXTENDED = 12, TYPE_BOOL = 20, TYPE_INTEGER, TYPE_FLOAT, TYPE_VECTOR, CONSTANT = 43,
       COMPOSITE_CONSTANT = 44, FUNCTION = 54, CONSTRUCT = 80, COPY = 83, FLOAT_TO_WHOLE = 109, WHOLE_TO_FLOAT = 112,
       CONVERT = 115, BITCAST = 124, NEGATE = 127, ADD = 128, FADD = 129, SUBTRACT = 130, FSUBTRACT = 131, MULTIPLY = 132,
       FMULTIPLY = 133, FDIVIDE = 136, REMAINDER = 137, SIGNED_REMAINDER, SIGNED_MODULO, FREMAINDER, SCALE = 142, DOT = 148, AND_TRUTH = 167, SELECT = 169,
       EQUAL = 170, GREATER = 172, LESS = 176, FEQUAL = 180, FLESS = 184, FGREATER = 186, FLESS_EQUAL = 188, FGREATER_EQUAL = 190, FLAST = 191,
       SHIFT_RIGHT = 194, OR = 197, XOR = 198, AND = 199 };
enum { FABS = 4, SIN = 13, COS, TAN, TANH = 21, ATAN2 = 25, POW, EXP, LOG, EXP2, LOG2, SQRT, INVERSE_SQRT, FMIN = 37, FMAX = 40, FMA = 50, NMIN = 79, NMAX = 80,
       FIRST_ANGLE = 11, LENGTH = 66, NORMALIZE = 69 };
enum { FLOAT64 = 10 };  // capability

typedef enum { FLOATS, WHOLE, TRUTH, DOUBLES, KINDS } kind;  // float32, uint32, bool, float64
enum { WIDEST = 4, MOST_CONSTANTS = 256 };

typedef struct { uint32_t *words; size_t count, room; } text;

typedef struct { kind of; int width; uint32_t bits, id; } constant;

/* `head` is all before the functions, `made` the types and constants that are added to it. */
typedef struct {
  text head, made, body;
  uint32_t bound, glsl, salt;
  uint32_t types[KINDS][WIDEST + 1];  // 0: not there
  constant constants[MOST_CONSTANTS];
  int constant_count;
} module;

void put(text *t, const uint32_t *words, size_t count);
void instruction(text *t, uint32_t op, const uint32_t *operands, size_t count);
uint32_t type_of(module *m, kind of, int width);
uint32_t constant_of(module *m, kind of, int width, uint32_t bits);
int width_of(const module *m, kind of, uint32_t type);  // 0: another type
uint32_t make(module *m, uint32_t op, uint32_t type, const uint32_t *operands, size_t count);

#define COUNTED(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define MAKE(op, of, width, ...) make(m, op, type_of(m, of, width), COUNTED(__VA_ARGS__))
#define CALL(name, width, ...) MAKE(EXTENDED, FLOATS, width, m->glsl, name, __VA_ARGS__)
#define BITS(value) constant_of(m, WHOLE, width, value)
