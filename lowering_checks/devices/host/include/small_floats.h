// Floating point types of 16 and 8 bits: every operation in float, rounded to nearest even.
//
// float has more than twice their bits, so that rounding twice gives what rounding once gives
// (Figueroa, When is double rounding innocuous?, SIGNUM Newsletter 30(3), 1995).
#pragma once

#include <stdint.h>

#include <type_traits>

#include "fibers.h"
#include "math_functions.h"

namespace tirstep {

// The bits of a positive number in a format, which may lie over the largest: the caller cuts it.
template <int exponent_bits, int mantissa_bits>
inline uint32_t round_magnitude(uint32_t magnitude) {
  constexpr int shift = 23 - mantissa_bits;
  constexpr uint32_t rebias = 127 - ((1 << (exponent_bits - 1)) - 1);
  if (magnitude < (rebias + 1) << 23) {
    // Added to a number whose last bit is the format's smallest, it is rounded by the processor.
    constexpr uint32_t carrier = (rebias + 1 + shift) << 23;
    return reinterpret<uint32_t>(reinterpret<float>(magnitude) + reinterpret<float>(carrier)) -
           carrier;
  }
  const uint32_t odd = (magnitude >> shift) & 1;
  return (magnitude - (rebias << 23) + (1u << (shift - 1)) - 1 + odd) >> shift;
}

// One format: `largest` is its largest number. What is beyond becomes infinity, or stays there.
template <typename Bits, int exponent, int mantissa, uint32_t largest, bool infinite, bool saturates>
struct SmallFloat {
  Bits __x;

  SmallFloat() = default;
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  SmallFloat(T value) : __x(round(float(value))) {}
  template <typename B, int e, int m, uint32_t l, bool i, bool s>
  explicit SmallFloat(SmallFloat<B, e, m, l, i, s> other) : __x(round(float(other))) {}

  operator float() const {
    constexpr int shift = 23 - mantissa, width = exponent + mantissa;
    constexpr uint32_t rebias = 127 - ((1 << (exponent - 1)) - 1);
    const uint32_t magnitude = __x & ((1u << width) - 1);
    const uint32_t sign = uint32_t(__x >> width) << 31;
    if (magnitude > largest) {
      const bool is_infinity = infinite && magnitude == largest + 1;
      return reinterpret<float>(sign | (is_infinity ? 0x7f800000u : 0x7fc00000u));
    }
    const float scale = reinterpret<float>((127 + rebias) << 23);
    const float value = reinterpret<float>(magnitude << shift) * scale;
    return reinterpret<float>(sign | reinterpret<uint32_t>(value));
  }

  static Bits round(float value) {
    const uint32_t bits = reinterpret<uint32_t>(value), magnitude = bits & 0x7fffffffu;
    const Bits sign = Bits((bits >> 31) << (exponent + mantissa));
    if (magnitude > 0x7f800000u) return Bits(sign | ((1u << (exponent + mantissa)) - 1));
    const uint32_t rounded = round_magnitude<exponent, mantissa>(magnitude);
    return Bits(sign | (rounded <= largest ? rounded : saturates ? largest : largest + 1));
  }
};

using Half = SmallFloat<uint16_t, 5, 10, 0x7bff, true, false>;
using BFloat16 = SmallFloat<uint16_t, 8, 7, 0x7f7f, true, false>;
using E4M3 = SmallFloat<uint8_t, 4, 3, 0x7e, false, true>;
using E5M2 = SmallFloat<uint8_t, 5, 2, 0x7b, true, true>;

template <typename T>
inline constexpr bool is_sixteen = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

}  // namespace tirstep

// Operators and functions of the 16-bit types. They stand here and not in the class, so that
// they are found for arguments of one type only, as CUDA's are.
#define TIRSTEP_OPERATOR(symbol, function)                                       \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline T operator symbol(T a, T b) { return T(float(a) symbol float(b)); }     \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline T& operator symbol##=(T& a, T b) { return a = a symbol b; }             \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline T function(T a, T b) { return a symbol b; }
#define TIRSTEP_COMPARISON(symbol, function)                                     \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline bool operator symbol(T a, T b) { return float(a) symbol float(b); }     \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline bool function(T a, T b) { return float(a) symbol float(b); }
#define TIRSTEP_UNARY(function, expression)                                      \
  template <typename T, typename = std::enable_if_t<tirstep::is_sixteen<T>>>     \
  inline T function(T a) {                                                       \
    const float x = float(a);                                                    \
    return T(expression);                                                        \
  }

namespace tirstep {
TIRSTEP_OPERATOR(+, __hadd)
TIRSTEP_OPERATOR(-, __hsub)
TIRSTEP_OPERATOR(*, __hmul)
TIRSTEP_OPERATOR(/, __hdiv)
TIRSTEP_COMPARISON(<, __hlt)
TIRSTEP_COMPARISON(<=, __hle)
TIRSTEP_COMPARISON(>, __hgt)
TIRSTEP_COMPARISON(>=, __hge)
TIRSTEP_COMPARISON(==, __heq)
TIRSTEP_COMPARISON(!=, __hne)
TIRSTEP_UNARY(operator-, -x)
TIRSTEP_UNARY(__hneg, -x)
TIRSTEP_UNARY(__habs, fabsf(x))
TIRSTEP_UNARY(hexp, expf(x))
TIRSTEP_UNARY(hexp2, exp2f(x))
TIRSTEP_UNARY(hexp10, powf(10.0f, x))
TIRSTEP_UNARY(hlog, logf(x))
TIRSTEP_UNARY(hlog2, log2f(x))
TIRSTEP_UNARY(hlog10, log10f(x))
TIRSTEP_UNARY(hsqrt, sqrtf(x))
TIRSTEP_UNARY(hrsqrt, 1.0f / sqrtf(x))
TIRSTEP_UNARY(hrcp, 1.0f / x)
TIRSTEP_UNARY(hsin, sinf(x))
TIRSTEP_UNARY(hcos, cosf(x))
TIRSTEP_UNARY(hceil, ceilf(x))
TIRSTEP_UNARY(hfloor, floorf(x))
TIRSTEP_UNARY(htrunc, truncf(x))
TIRSTEP_UNARY(hrint, nearbyintf(x))

template <typename T, typename = std::enable_if_t<is_sixteen<T>>>
inline T __hfma(T a, T b, T c) { return T(fma(double(float(a)), double(float(b)), double(float(c)))); }
template <typename T, typename = std::enable_if_t<is_sixteen<T>>>
inline T __hmax(T a, T b) { return T(fmaxf(float(a), float(b))); }
template <typename T, typename = std::enable_if_t<is_sixteen<T>>>
inline T __hmin(T a, T b) { return T(fminf(float(a), float(b))); }
}  // namespace tirstep
