// The mathematical functions that CUDA has without an include.
#pragma once

#include <type_traits>

#ifdef __GLIBCXX__
// Declared one by one: GCC's <math.h> would take half of the time that a kernel takes to compile.

// Of float and of double, and under one name for both, as CUDA has them.
#define TIRSTEP_MATH(name)                                  \
  extern "C" double name(double) noexcept;                  \
  extern "C" float name##f(float) noexcept;                 \
  inline float name(float x) { return name##f(x); }
#define TIRSTEP_MATH_OF_TWO(name)                           \
  extern "C" double name(double, double) noexcept;          \
  extern "C" float name##f(float, float) noexcept;          \
  inline float name(float x, float y) { return name##f(x, y); }

TIRSTEP_MATH(acos)
TIRSTEP_MATH(acosh)
TIRSTEP_MATH(asin)
TIRSTEP_MATH(asinh)
TIRSTEP_MATH(atan)
TIRSTEP_MATH(atanh)
TIRSTEP_MATH(cbrt)
TIRSTEP_MATH(ceil)
TIRSTEP_MATH(cos)
TIRSTEP_MATH(cosh)
TIRSTEP_MATH(erf)
TIRSTEP_MATH(erfc)
TIRSTEP_MATH(exp)
TIRSTEP_MATH(exp2)
TIRSTEP_MATH(expm1)
TIRSTEP_MATH(fabs)
TIRSTEP_MATH(floor)
TIRSTEP_MATH(lgamma)
TIRSTEP_MATH(log)
TIRSTEP_MATH(log10)
TIRSTEP_MATH(log1p)
TIRSTEP_MATH(log2)
TIRSTEP_MATH(nearbyint)
TIRSTEP_MATH(rint)
TIRSTEP_MATH(round)
TIRSTEP_MATH(sin)
TIRSTEP_MATH(sinh)
TIRSTEP_MATH(sqrt)
TIRSTEP_MATH(tan)
TIRSTEP_MATH(tanh)
TIRSTEP_MATH(tgamma)
TIRSTEP_MATH(trunc)
TIRSTEP_MATH_OF_TWO(atan2)
TIRSTEP_MATH_OF_TWO(copysign)
TIRSTEP_MATH_OF_TWO(fmax)
TIRSTEP_MATH_OF_TWO(fmin)
TIRSTEP_MATH_OF_TWO(fmod)
TIRSTEP_MATH_OF_TWO(hypot)
TIRSTEP_MATH_OF_TWO(nextafter)
TIRSTEP_MATH_OF_TWO(pow)

extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
inline float ldexp(float x, int exponent) { return ldexpf(x, exponent); }

extern "C" int abs(int) noexcept;
inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

#define TIRSTEP_QUESTION(name)                              \
  inline bool name(float x) { return __builtin_##name(x); } \
  inline bool name(double x) { return __builtin_##name(x); }
TIRSTEP_QUESTION(isnan)
TIRSTEP_QUESTION(isinf)
TIRSTEP_QUESTION(isfinite)

#else
#include <math.h>
#include <stdlib.h>
#endif

// The overloads of CUDA; of mixed arguments C++ would not know which to take.
#define TIRSTEP_EXTREMES(type)                              \
  inline type max(type a, type b) { return a < b ? b : a; } \
  inline type min(type a, type b) { return b < a ? b : a; }
TIRSTEP_EXTREMES(int)
TIRSTEP_EXTREMES(unsigned int)
TIRSTEP_EXTREMES(long)
TIRSTEP_EXTREMES(unsigned long)
TIRSTEP_EXTREMES(long long)
TIRSTEP_EXTREMES(unsigned long long)
inline float max(float a, float b) { return fmaxf(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(double a, double b) { return fmin(a, b); }

// CUDA's fast functions, as exact as the C library has them.
inline float exp10f(float x) { return powf(10.0f, x); }
inline double exp10(double x) { return pow(10.0, x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __saturatef(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
