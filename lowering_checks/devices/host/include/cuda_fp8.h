// The float8 types as CUDA's header of this name has them: single ones, pairs and fours.
#pragma once

#include "cuda.h"
#include "small_floats.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
using __nv_fp8x4_storage_t = unsigned int;

using __nv_fp8_e4m3 = tirstep::E4M3;
using __nv_fp8_e5m2 = tirstep::E5M2;
// Scales, powers of two: TVM names the type in every float8 source. It is only moved about here.
struct __nv_fp8_e8m0 {
  __nv_fp8_storage_t __x;
};

namespace tirstep {

template <typename One, typename Bits, typename Floats>
struct SmallFloats {
  Bits __x;

  SmallFloats() = default;
  explicit SmallFloats(const Floats& values) : __x(0) {
    for (size_t i = 0; i < sizeof(Bits); ++i)
      __x |= Bits(Bits(One((&values.x)[i]).__x) << (8 * i));
  }
  explicit operator Floats() const {
    Floats values;
    for (size_t i = 0; i < sizeof(Bits); ++i) {
      One one;
      one.__x = (unsigned char)(__x >> (8 * i));
      (&values.x)[i] = float(one);
    }
    return values;
  }
};

}  // namespace tirstep

using __nv_fp8x2_e4m3 = tirstep::SmallFloats<__nv_fp8_e4m3, __nv_fp8x2_storage_t, float2>;
using __nv_fp8x4_e4m3 = tirstep::SmallFloats<__nv_fp8_e4m3, __nv_fp8x4_storage_t, float4>;
using __nv_fp8x2_e5m2 = tirstep::SmallFloats<__nv_fp8_e5m2, __nv_fp8x2_storage_t, float2>;
using __nv_fp8x4_e5m2 = tirstep::SmallFloats<__nv_fp8_e5m2, __nv_fp8x4_storage_t, float4>;
struct __nv_fp8x2_e8m0 {
  __nv_fp8x2_storage_t __x;
};
struct __nv_fp8x4_e8m0 {
  __nv_fp8x4_storage_t __x;
};
