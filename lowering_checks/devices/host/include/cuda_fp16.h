// half and half2 as CUDA's header of this name has them, as far as TVM's kernels use them.
#pragma once

#include "cuda.h"
#include "small_floats.h"

using half = tirstep::Half;
using __half = tirstep::Half;
struct alignas(4) half2 {
  half x, y;
};
using __half2 = half2;

inline float __half2float(half a) { return float(a); }
inline half __float2half(float a) { return half(a); }
inline half __float2half_rn(float a) { return half(a); }
inline half2 make_half2(half x, half y) { return {x, y}; }
inline half2 __halves2half2(half x, half y) { return {x, y}; }
inline half2 __floats2half2_rn(float x, float y) { return {half(x), half(y)}; }
inline half2 __float22half2_rn(float2 a) { return {half(a.x), half(a.y)}; }
inline float2 __half22float2(half2 a) { return {float(a.x), float(a.y)}; }

// TVM defines these for half only where it sees a GPU's architecture.
inline half hpow(half a, half b) { return half(powf(float(a), float(b))); }
inline half htanh(half a) { return half(tanhf(float(a))); }
inline half htan(half a) { return half(tanf(float(a))); }
inline half hatan(half a) { return half(atanf(float(a))); }
inline half herf(half a) { return half(erff(float(a))); }
