// nv_bfloat16 as CUDA's header of this name has it, as far as TVM's kernels use it.
#pragma once

#include "cuda.h"
#include "small_floats.h"

using nv_bfloat16 = tirstep::BFloat16;
using __nv_bfloat16 = tirstep::BFloat16;
struct alignas(4) nv_bfloat162 {
  nv_bfloat16 x, y;
  nv_bfloat162() = default;
  nv_bfloat162(nv_bfloat16 first, nv_bfloat16 second) : x(first), y(second) {}
};
using __nv_bfloat162 = nv_bfloat162;

inline float __bfloat162float(nv_bfloat16 a) { return float(a); }
inline nv_bfloat16 __float2bfloat16(float a) { return nv_bfloat16(a); }
inline nv_bfloat16 __float2bfloat16_rn(float a) { return nv_bfloat16(a); }
inline nv_bfloat162 __halves2bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return {x, y}; }
inline nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float2 __bfloat1622float2(nv_bfloat162 a) { return {float(a.x), float(a.y)}; }
